/* A forked child starts threads of its own, forks again, and its child does too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static long *data;

static void *work(void *from)
{
    long sum = 0;
    for (int i = 0; i < 100000; i++)
        data[i] += i + (long)from;
    for (int i = 0; i < 100000; i++)
        sum += data[i];
    return (void *)sum;
}

static void threads(const char *who)
{
    for (long i = 0; i < 3; i++) {
        pthread_t thread;
        void *sum;
        if (pthread_create(&thread, NULL, work, (void *)i))
            abort();
        pthread_join(thread, &sum);
        printf("%s: %ld\n", who, (long)sum);
    }
    fflush(stdout);
}

int main(void)
{
    int status;
    data = calloc(100000, sizeof *data);
    if (!fork()) {
        threads("child");
        if (!fork()) {
            threads("grandchild");
            _exit(3);
        }
        wait(&status);
        printf("%x\n", (unsigned)status);
        fflush(stdout);
        _exit(4);
    }
    wait(&status);
    printf("%x\n", (unsigned)status);
    threads("parent");
    return 0;
}
