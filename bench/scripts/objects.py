# Objects whose attributes are read and written, and floating point.
import math


class Body:
    def __init__(self, x, y, z):
        self.x, self.y, self.z, self.v = x, y, z, 0.0


bodies = [Body(i, 2.0 * i, 0.5 * i) for i in range(60)]
for step in range(800):
    for a in bodies:
        for b in bodies:
            if a is not b:
                a.v += 1 / math.sqrt((a.x - b.x) ** 2 + (a.y - b.y) ** 2 + (a.z - b.z) ** 2 + 0.01)
print(sum(body.v for body in bodies))
