/* SPDX-License-Identifier: BSL-1.0 */
#ifndef INTEROP_BINARY_H
#define INTEROP_BINARY_H
#include "steps/interop/binary.h"

/* What interop_binary.c has for the tests, written in C. */

#ifdef __cplusplus
extern "C" {
#endif

/* What steps in C have done, in the order done. */
struct journal {
  int count;
  int entries[64];
};
void note(struct journal* to, int what);

/* Adds steps, loops, errors with handlers, and ends with the results (int32 6, string "six"). */
void add_program(FutoInAsyncSteps* bsi, struct journal* to);

/* Adds four branches with `sync` around a section of two steps each. A section notes the number of open sections when
 * it begins, and the negative when it ends. That of the last branch fails; its handler notes 100. */
struct guarded {
  FutoInSync* sync;
  struct journal* to;
  int open;
};
void add_guarded_branches(FutoInAsyncSteps* bsi, struct guarded* what);

/* Steps: the results of each type are checked and noted as their flags; then passed on, in reverse. */
void note_results(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args);
void pass_all_kinds(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args);
void pass_texts(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args);
void pass_arrays(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args);
void hand_on(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args);

/* A custom object that counts how often it was freed. */
FutoInBinaryValue counted_object(int* freed);
void pass_object(FutoInAsyncSteps* bsi, void* freed, const FutoInArgs* args);

/* A runtime of its own, as far as the library can tell: all calls go on to `inner`. To be freed by free(). */
FutoInAsyncSteps* other_runtime(FutoInAsyncSteps* inner);

/* A mutex of its own, with a queue, for the flows of one thread. */
struct c_mutex {
  FutoInSync sync;
  int holders;
  int most_holders;
  int nested;
  ptrdiff_t owner;
  struct c_waiter* first;
};
struct c_mutex* make_mutex(void);
void free_mutex(struct c_mutex* mutex);

#ifdef __cplusplus
}
#endif
#endif
