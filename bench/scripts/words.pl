# A hash by strings, calls, and a regular expression.
my %h;
for my $i (1 .. 5000000) { $h{"k" . ($i * 7919 % 5003)} += $i }
my ($s, $c) = (0, 0);
$s += $_ for values %h;
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
my $t = "abc def ghi " x 300000;
$c++ while $t =~ /\b(\w+)\b/g;
print "$s $c ", fib(24), "\n";
