{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE CPP #-}
{-# LANGUAGE ForeignFunctionInterface #-}
-- | Fault: the main thread allocates a list, and threads on all nodes consume its intervals (Haskell, sumEuler).
--
-- After the data-parallel sumeuler of MacGregor, Trinder and Loidl ("Improving GHC Haskell NUMA Profiling"): the main thread makes the
-- whole list before other threads sum Euler's totient over intervals of it. There one region is hot, with 81 % of all accesses, 29.6 % are
-- local, and 97 % of what the main thread allocates is in one region; in the divide-and-conquer version every thread makes
-- its own intervals. Expected: the hot region is the main thread's node, (N-1)/N of the accesses to the list remote on N
-- nodes, the line that fills the intervals on top of first-touch; remedy: allocate in the thread that uses it.
-- With FIXED every thread makes its intervals, as divide and conquer does. Numbers are small, so that totients can be looked up and
-- the intervals are what costs; nurseries are so large that nothing is collected. There is no truth of arrays: a list is not one.
module Main (main) where

import Control.Concurrent (forkOS, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM)
import Data.Array.Base (UArray, unsafeAt, unsafeFreeze, unsafeNewArray_, unsafeWrite)
import Data.Array.IO (IOUArray)
import Data.Bits (unsafeShiftR, (.&.))
import Data.List (foldl')
import Data.Word (Word64)
import Foreign.C (CDouble (..), CInt (..), CLong (..), CString, withCString)

foreign import ccall unsafe "tgx_start" tgxStart :: CString -> CDouble -> CLong -> IO ()
foreign import ccall unsafe "tgx_threads" tgxThreads :: IO CInt
foreign import ccall unsafe "tgx_bytes" tgxBytes :: IO CLong
foreign import ccall unsafe "tgx_rounds" tgxRounds :: IO CLong
foreign import ccall unsafe "tgx_enter" tgxEnter :: CInt -> CInt -> IO ()
foreign import ccall unsafe "tgx_finish" tgxFinish :: IO ()

-- | Numbers of an interval: eight kibibytes, which the runtime allocates as blocks of their own.
type Interval = UArray Int Int

size :: Int
size = 1024

-- | Intervals from number `from` on, made to the last number.
makeIntervals :: Int -> Int -> IO [Interval]
makeIntervals from to = forM [from .. to - 1] $ \number -> do
  interval <- unsafeNewArray_ (0, size - 1) :: IO (IOUArray Int Int)
  fill interval (number * size) 0
  unsafeFreeze interval

fill :: IOUArray Int Int -> Int -> Int -> IO ()
fill !interval !first = go
  where
    go :: Int -> IO ()
    go i
      | i == size = pure ()
      | otherwise = unsafeWrite interval i ((first + i) * 7919 `rem` 28 + 3) >> go (i + 1) -- EXPECT first-touch
{-# NOINLINE fill #-}

-- | Euler's totient of 3 to 30. The halves are looked up in two words, four bits each: so only the intervals are in memory.
euler :: Int -> Int
euler n = fromIntegral (2 * (halves `unsafeShiftR` (4 * (at .&. 15)) .&. 15))
  where
    at = n - 3
    halves = if at < 16 then 0x3844362523231211 else 0x4e696a4b5649 :: Word64
{-# INLINE euler #-}

sumInterval :: Interval -> Int -> Int
sumInterval !interval = go 0
  where
    go :: Int -> Int -> Int
    go !i !total
      | i == size = total
      | otherwise = go (i + 1) (total + euler (unsafeAt interval i)) -- EXPECT remote
{-# NOINLINE sumInterval #-}

-- | Sums the intervals so many times over; the total so far goes in, so that no round can be shared with the one before.
rounds :: [Interval] -> Int -> IO Int
rounds list = go 0
  where
    go !total 0 = pure total
    go !total n = go (foldl' (flip sumInterval) total list) (n - 1 :: Int)

main :: IO ()
main = do
  withCString "sum_euler" $ \name -> tgxStart name 16 400
  threads <- fromIntegral <$> tgxThreads
  bytes <- fromIntegral <$> tgxBytes
  count <- fromIntegral <$> tgxRounds
  tgxEnter 0 0
  let block = bytes `div` 8 `div` size `div` threads :: Int
      make slot = makeIntervals ((slot - 1) * block) (slot * block)
#ifdef FIXED
  let intervals = map make [1 .. threads]
#else
  made <- mapM make [1 .. threads]
  let intervals = map pure made
#endif
  results <- forM (zip [1 .. threads] intervals) $ \(slot, intervalsOf) -> do
    result <- newEmptyMVar
    _ <- forkOS $ do
      tgxEnter (fromIntegral slot) (fromIntegral slot)
      list <- intervalsOf
      total <- rounds list count
      putMVar result total
    pure result
  totals <- mapM takeMVar results
  putStrLn ("sum_euler: " ++ show (sum totals))
  tgxFinish
