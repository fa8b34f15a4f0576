# redis-server under its own benchmark. Rates differ from run to run; what is in the store afterwards does not.
redis-server --port 0 --unixsocket "$PWD/s" --save '' --io-threads 2 --logfile log &
until redis-cli -s "$PWD/s" ping 2>/dev/null; do sleep 0.1; done
redis-benchmark -s "$PWD/s" -n 2000 -c 10 -t set,get,incr,lpush,lrange_100,mset --csv | cut -d, -f1
redis-cli -s "$PWD/s" get counter:__rand_int__
redis-cli -s "$PWD/s" llen mylist
redis-cli -s "$PWD/s" dbsize
redis-cli -s "$PWD/s" eval 'local s = 0 for i = 1, 10000 do s = s + i end return s' 0
redis-cli -s "$PWD/s" shutdown nosave
wait $!
echo "$?"
