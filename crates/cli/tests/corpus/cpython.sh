# Some of CPython's regression tests: those that pass natively on any Linux, in containers too.
for test in test_bisect test_heapq test_struct test_signal test_re test_json test_threading_local test_mmap test_array test_zlib \
    test_bz2 test_hashlib test_ctypes test_select test_poll test_epoll test_faulthandler test_posix test_fork1 test_wait3 \
    test_wait4 test_thread test_threadsignals test_queue test_generators test_dict test_float test_math test_unicode test_pickle \
    test_memoryio test_fcntl test_pty test_resource test_gc test_weakref; do
    /usr/bin/python3 -m test -q "$test" >log 2>&1
    echo "$test $?"
done
