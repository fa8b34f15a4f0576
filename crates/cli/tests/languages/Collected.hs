-- | Lists that are kept while others are made, with collections in between.
module Main (main) where
import qualified Data.IORef as R
import Control.Monad
import System.Mem
main :: IO ()
main = do
  ref <- R.newIORef ([] :: [Int])
  forM_ [1 .. 3000] $ \i -> R.modifyIORef' ref (i :)
  performMinorGC
  forM_ [1 .. 2000] $ \i -> R.modifyIORef' ref (i :)
  performMinorGC
  performMajorGC
  xs <- R.readIORef ref
  print (sum xs, length xs)
