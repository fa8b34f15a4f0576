/* Writing records to the log of runtimes. */
#ifndef NUMALENS_RUNTIME_LOG_H
#define NUMALENS_RUNTIME_LOG_H

#include "state.h"

struct log_record { uint64_t *words, word; char *at, *end; };

/* A record with room for `bytes` behind the words that all have; 0: nobody listens, or there is no room. */
HIDDEN int numalens_log_begin(struct log_record *record, enum numalens_told told, uint64_t bytes);
HIDDEN void numalens_log_put(struct log_record *record, uint64_t value);
HIDDEN void numalens_log_text(struct log_record *record, const char *text, size_t bytes);
HIDDEN void numalens_log_end(struct log_record *record);

/* Whether a method has not been told yet; from now on it has. */
HIDDEN int numalens_is_new_method(uint64_t method);

#endif
