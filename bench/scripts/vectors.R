# A loop, a solved system, sorting, a list.
s <- 0
for (i in 1:6000000) s <- s + (i %% 7) * 2
m <- matrix((1:490000 * 7919) %% 1009 / 1009, 700) + diag(700)
print(c(s, sum(solve(m)), sort((1:2000000 * 31) %% 100003)[5], length(lapply(1:300000, function(i) c(i, i * 2)))))
