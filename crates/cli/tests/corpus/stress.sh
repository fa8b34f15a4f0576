# stress-ng's stressors of processors and memory, which verify what they compute.
stress-ng -q --verify --cpu 2 --cpu-method all --cpu-ops 120; echo "cpu $?"
for what in vm matrix memcpy malloc mmap stream str bsearch qsort hsearch lsearch tsearch tree wcs zlib remap memrate mergesort radixsort shellsort; do
    case $what in vm | mmap) bytes="--$what-bytes 4m" ;; *) bytes= ;; esac
    # shellcheck disable=SC2086
    timeout 120 stress-ng -q --verify --$what 1 --$what-ops 4 $bytes >/dev/null 2>&1; echo "$what $?"
done
for what in fork vfork clone pthread mremap mprotect sigsegv sigfpe sigq signal timer context futex switch pipe; do
    timeout 120 stress-ng -q --$what 1 --$what-ops 50 >/dev/null 2>&1; echo "$what $?"
done
