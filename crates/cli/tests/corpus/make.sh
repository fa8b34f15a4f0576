# A small project in C, built by several jobs at once, archived, linked against, changed and built again.
i=0
while [ $i -lt 12 ]; do
    echo "int f$i(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * $i; return s; }" > f$i.c
    i=$((i + 1))
done
printf '#include <stdio.h>\nint f3(int), f11(int);\nint main(void) { printf("%%d %%d\\n", f3(100), f11(7)); return 0; }\n' > main.c
cat > Makefile <<'END'
O := $(patsubst %.c,%.o,$(wildcard f*.c))
app: main.o lib.a ; @$(CC) -o $@ $^
lib.a: $(O) ; @ar rcsD $@ $^
%.o: %.c ; @$(CC) -O2 -g -c -o $@ $<
END
make -s -j4 && ./app
make -s -j4 -q; echo "$?"
echo 'int f3(int x) { return -x; }' > f3.c
touch -d '+5 seconds' f3.c
make -s -j4 && ./app
nm lib.a | grep -c ' T '; objdump -d app | grep -c 'ret'; strip app && ./app
