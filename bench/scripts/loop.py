# A list that is read in a loop: an interpreter's own work, and few objects.
t = [i % 7 for i in range(1000)]
s = 0
for k in range(14000):
    for i in range(1000):
        s += t[i] * (i & 3)
print(s)
