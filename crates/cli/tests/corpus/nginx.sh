# nginx with two workers, loaded by ab.
port=$((20000 + $$ % 20000))
mkdir www t
seq 1 20000 > www/big
cat > conf <<END
daemon off; user root; worker_processes 2; pid $PWD/pid; error_log $PWD/error crit;
events { worker_connections 128; }
http {
    access_log off; sendfile on; gzip on; gzip_types *; gzip_min_length 100;
    client_body_temp_path t/1; proxy_temp_path t/2; fastcgi_temp_path t/3; uwsgi_temp_path t/4; scgi_temp_path t/5;
    server { listen 127.0.0.1:$port; root $PWD/www; }
}
END
PATH=$PATH:/usr/sbin
nginx -p "$PWD" -c "$PWD/conf" -e "$PWD/error" 2>/dev/null &
server=$!
until ab -q -n 1 "http://127.0.0.1:$port/big" >/dev/null 2>&1; do sleep 0.1; done
ab -q -k -n 400 -c 8 "http://127.0.0.1:$port/big" | grep -E '^(Document Length|Complete requests|Failed requests|Non-2xx)'
ab -q -n 200 -c 8 -H 'Accept-Encoding: gzip' "http://127.0.0.1:$port/big" | grep -E '^(Complete requests|Failed requests)'
ab -q -n 50 -c 4 "http://127.0.0.1:$port/missing" | grep -E '^(Complete requests|Non-2xx)'
kill -QUIT $server
wait $server
echo "$?"
