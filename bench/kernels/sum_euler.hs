module Main where
import Control.Concurrent
import Control.Monad

-- Euler's totient summed over a range, by threads that take every n-th number: allocation and laziness.
totient :: Int -> Int
totient n = length [m | m <- [1 .. n], gcd' m n == 1]

gcd' :: Int -> Int -> Int
gcd' a 0 = a
gcd' a b = gcd' b (a `mod` b)

main :: IO ()
main = do
  let limit = 7000
      workers = 2
  sums <- forM [1 .. workers] $ \worker -> do
    result <- newEmptyMVar
    _ <- forkIO $ do
      let total = sum (map totient [worker, worker + workers .. limit])
      total `seq` putMVar result total
    pure result
  totals <- mapM takeMVar sums
  print (sum totals)
