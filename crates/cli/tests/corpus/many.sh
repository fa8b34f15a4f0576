# A thousand threads created and joined, a thousand programs executed, one after the other and one by the other.
python3 -c '
import threading
n = [0]
def work():
    n[0] += 1
for i in range(1000):
    t = threading.Thread(target=work)
    t.start()
    t.join()
print(n)'
i=0
while [ $i -lt 1000 ]; do /bin/true && i=$((i + 1)); done
echo $i
echo '[ "$1" -gt 0 ] && exec sh "$0" $(($1 - 1)); echo end' > chain
sh chain 1000
