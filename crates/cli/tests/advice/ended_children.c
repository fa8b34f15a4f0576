/* Children one after the other, then three threads beside main: on a machine of four nodes each has one of them,
 * however many children there were. Children end, execute another program, or do so while they have threads. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS (1 << 17)

static void *work(void *unused)
{
    volatile long *words = malloc(WORDS * sizeof(long));
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < WORDS; i++)
            words[i] += i;
    return unused;
}

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void child(int how)
{
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        if (how == 2)
            pthread_create(&thread, 0, wait_for_ever, 0);
        if (how > 0)
            execl("/bin/true", "true", (char *)0);
        _exit(0);
    }
    waitpid(pid, 0, 0);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < atoi(argv[argc - 1]); i++)
        child(i % 3);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, work, 0);
    work(0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
}
