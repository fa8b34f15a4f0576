// Says what it sees of its environment, starts many programs, and hands the environment on.
#define _GNU_SOURCE 1
#include <elf.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int c; (c = fgetc(file)) != EOF;) lines += c == '\n';
    fclose(file);
    return lines;
}

int main(int count, char **arguments) {
    if (count < 2) {
        setenv("LD_PRELOAD", "libm.so.6", 1);
        execl("/proc/self/exe", arguments[0], "again", (char *)0);
        return 1;
    }
    int variables = 0;
    for (; environ[variables]; variables++)
        if (strstr(environ[variables], "LD_") || strstr(environ[variables], "NUMALENS")) puts(environ[variables]);
#ifndef LOADED
    // What the kernel says stands behind the variables, where static programs' C libraries look for it.
    const Elf64_auxv_t *word = (const Elf64_auxv_t *)(environ + variables + 1);
    while (word->a_type != AT_NULL && word->a_type != AT_ENTRY) word++;
    printf("%d\n", word->a_type == AT_ENTRY && word->a_un.a_val == getauxval(AT_ENTRY));
#endif
    printf("%s\n", (const char *)getauxval(AT_EXECFN));
    char *quick[] = {"/bin/true", 0}, *none[] = {0};
    int before = 0, failed = 0;
    for (int i = 0; i < 130; i++) {
        pid_t child;
        int status = 1;
        if (posix_spawn(&child, quick[0], 0, 0, quick, i % 2 ? environ : none)) failed++;
        else if (waitpid(child, &status, 0) != child || status) failed++;
        if (i == 20) before = mappings();
    }
    printf("%d failed, %s\n", failed, mappings() < before + 50 ? "no more memory" : "more memory for each");
    fflush(stdout);
    return system("env | grep -e LD_ -e NUMALENS; env -i /usr/bin/env") == -1;
}
