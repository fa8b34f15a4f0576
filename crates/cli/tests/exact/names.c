/* Threads whose names are known by nobody but themselves, and not for long: a child that ends at once, a thread that
 * names itself, one that another names, one that execs. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t named;

static void *by_itself(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "by itself");
    return NULL;
}

static void *by_another(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&named);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    prctl(PR_SET_NAME, "first");
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    pthread_create(&thread, NULL, by_itself, NULL);
    pthread_join(thread, NULL);
    pthread_barrier_init(&named, NULL, 2);
    pthread_create(&thread, NULL, by_another, NULL);
    if (pthread_setname_np(thread, "by another"))
        return 1;
    pthread_barrier_wait(&named);
    pthread_join(thread, NULL);
    execl("/bin/true", "true", NULL);
    return 1;
}
