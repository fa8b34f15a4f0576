/* Signals: 10,000 of one, and everything that SIGTRAP can do: breakpoints, blocked, pending, default, ignored. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/time.h>
#include <sys/wait.h>
static volatile int n, traps;
static void h(int s){ n++; }
static void t(int s, siginfo_t*i, void*c){ traps++; }
int main(){
 struct sigaction a={0}; a.sa_handler=h; sigaction(SIGUSR1,&a,0);
 for(int i=0;i<10000;i++) raise(SIGUSR1);
 printf("%d\n",n);
 struct sigaction b={0}; b.sa_sigaction=t; b.sa_flags=SA_SIGINFO; sigaction(SIGTRAP,&b,0);
 for(int i=0;i<100;i++) __asm__ volatile("int3");
 for(int i=0;i<100;i++) raise(SIGTRAP);
 printf("%d\n",traps);
 sigset_t s,o; sigemptyset(&s); sigaddset(&s,SIGTRAP); sigaddset(&s,SIGUSR1); sigprocmask(SIG_BLOCK,&s,0);
 raise(SIGUSR1); raise(SIGTRAP); printf("%d %d\n",n,traps);
 sigprocmask(SIG_BLOCK,0,&o); printf("blocked %d %d\n",sigismember(&o,SIGTRAP),sigismember(&o,SIGUSR1));
 sigset_t p; sigpending(&p); printf("pending %d %d\n",sigismember(&p,SIGTRAP),sigismember(&p,SIGUSR1));
 sigprocmask(SIG_UNBLOCK,&s,0); printf("%d %d\n",n,traps);
 int pid=fork(); if(!pid){ signal(SIGTRAP,SIG_DFL); raise(SIGTRAP); _exit(3);} int st; waitpid(pid,&st,0); printf("%d %d\n",WIFSIGNALED(st),WTERMSIG(st));
 pid=fork(); if(!pid){ signal(SIGTRAP,SIG_IGN); raise(SIGTRAP); _exit(3);} waitpid(pid,&st,0); printf("%d %d\n",WIFSIGNALED(st),WEXITSTATUS(st));
 pid=fork(); if(!pid){ abort(); } waitpid(pid,&st,0); printf("%d %d\n",WIFSIGNALED(st),WTERMSIG(st));
 return 0;}
