{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE CPP #-}
{-# LANGUAGE ForeignFunctionInterface #-}
{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
-- | Fault: one thread initialises, all use their own block (Haskell, bound threads over an unboxed array).
--
-- As serial_init_pthreads.c. Expected: first-touch names the line below with the array's pages; the line of the sum is on
-- top of @lines@, (N-1)/N of its accesses remote on N nodes; remedy: initialise in parallel. The array is large, so
-- the garbage collector does not move it, and the loops allocate nothing. With FIXED every thread initialises its block.
module Main (main) where

import Control.Concurrent (forkOS, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, forM_)
import Data.Array.Base (UArray (..), unsafeAt, unsafeFreeze, unsafeWrite)
import Data.Array.IO (IOUArray, newArray_)
import Data.Word (Word64)
import Foreign.C (CDouble (..), CInt (..), CLong (..), CString, withCString)
import Foreign.Ptr (Ptr)
import GHC.Exts (Ptr (Ptr), byteArrayContents#)

foreign import ccall unsafe "tgx_start" tgxStart :: CString -> CDouble -> CLong -> IO ()
foreign import ccall unsafe "tgx_threads" tgxThreads :: IO CInt
foreign import ccall unsafe "tgx_bytes" tgxBytes :: IO CLong
foreign import ccall unsafe "tgx_rounds" tgxRounds :: IO CLong
foreign import ccall unsafe "tgx_enter" tgxEnter :: CInt -> CInt -> IO ()
foreign import ccall unsafe "tgx_array" tgxArray :: CString -> Ptr () -> CLong -> IO CInt
foreign import ccall unsafe "tgx_touched" tgxTouched :: CInt -> CInt -> CLong -> CLong -> CString -> IO ()
foreign import ccall unsafe "tgx_accessed" tgxAccessed
  :: CInt -> CInt -> CLong -> CLong -> CDouble -> CDouble -> CDouble -> CString -> IO ()
foreign import ccall unsafe "tgx_seconds" tgxSeconds :: IO CDouble
foreign import ccall unsafe "tgx_finish" tgxFinish :: IO ()

-- The arrays are strict, so that the loops look at them once and touch nothing but their elements.
initialise :: IOUArray Int Word64 -> Int -> Int -> IO ()
initialise !array from n = go from
  where
    go :: Int -> IO ()
    go i
      | i == n = pure ()
      | otherwise = unsafeWrite array i (fromIntegral i * fromIntegral i) >> go (i + 1) -- EXPECT first-touch
{-# NOINLINE initialise #-}

sumBlock :: UArray Int Word64 -> Int -> Int -> Word64 -> Word64
sumBlock !array from to = go from
  where
    go !i !total
      | i == to = total
      -- A product takes longer than the loop around it, so samples of the clock are at the element and not at the jump.
      | otherwise = go (i + 1) (total * 3 + unsafeAt array i) -- EXPECT remote
{-# NOINLINE sumBlock #-}

-- | Sums the block so many times over; the total so far goes in, so that no round can be shared with the one before.
rounds :: UArray Int Word64 -> Int -> Int -> Int -> IO Word64
rounds array from to = go 0
  where
    go !total 0 = pure total
    go !total n = go (sumBlock array from to total) (n - 1)

main :: IO ()
main = do
  withCString "serial_init_haskell" $ \name -> tgxStart name 64 100
  threads <- fromIntegral <$> tgxThreads
  bytes <- fromIntegral <$> tgxBytes
  count <- fromIntegral <$> tgxRounds
  tgxEnter 0 0
  let n = bytes `div` 8
      block = n `div` threads
  mutable <- newArray_ (0, n - 1) -- EXPECT object
  start <- tgxSeconds
#ifndef FIXED
  initialise mutable 0 n
#endif
  end <- tgxSeconds
  frozen@(UArray _ _ _ contents) <- unsafeFreeze mutable :: IO (UArray Int Word64)
  array <- withCString "array" $ \name -> tgxArray name (Ptr (byteArrayContents# contents)) (fromIntegral bytes)
  withCString "first-touch" $ \tag -> do
    tgxTouched array 0 0 (fromIntegral bytes) tag
    tgxAccessed array 0 0 (fromIntegral bytes) 0 (fromIntegral n) (end - start) tag
  results <- forM [1 .. threads] $ \slot -> do
    result <- newEmptyMVar
    _ <- forkOS $ do
      tgxEnter (fromIntegral slot) (fromIntegral slot)
      let from = (slot - 1) * block
#ifdef FIXED
      initialise mutable from (from + block)
#endif
      began <- tgxSeconds
      total <- rounds frozen from (from + block) count
      ended <- tgxSeconds
      withCString "remote" $ \tag ->
        tgxAccessed array (fromIntegral slot) (fromIntegral (from * 8)) (fromIntegral ((from + block) * 8))
          (fromIntegral (count * block)) 0 (ended - began) tag
      putMVar result total
    pure result
  totals <- mapM takeMVar results
  putStrLn ("serial_init_haskell: " ++ show (sum totals))
  tgxFinish
  -- The array stays alive until its homes have been asked for.
  forM_ [unsafeAt frozen 0 | sum totals == 1] print
