/* SPDX-License-Identifier: BSL-1.0 */
#include "unit/interop/interop_binary.h"

#include <stdlib.h>
#include <string.h>

void note(struct journal* to, int what) {
  if (to->count < 64) to->entries[to->count] = what;
  ++to->count;
}

/* --- a program ---------------------------------------------------------------------------------------------------- */

static const FutoInArgs no_results;
static const FutoInType int32_type = {FTN_TYPE_INT32, NULL};
static const FutoInType text_type = {FTN_TYPE_STRING, NULL};

static void innermost(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args) {
  (void)args;
  note(to, 2);
  bsi->api->handle_error(bsi, "MyError", "an info");
}
static void recover(FutoInAsyncSteps* bsi, void* to, const char* code) {
  note(to, strcmp(code, "MyError") == 0 ? 3 : -3);
  bsi->api->success(bsi, NULL);
}
static void outer(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args) {
  (void)args;
  note(to, 1);
  bsi->api->add(bsi, to, innermost, NULL);
}
static void iteration(FutoInAsyncSteps* bsi, void* to, size_t i) {
  if (i == 1) {
    bsi->api->continueLoop(bsi, NULL);
    return;
  }
  note(to, 10 + (int)i);
}
static void endless(FutoInAsyncSteps* bsi, void* to) {
  note(to, 20);
  if (((struct journal*)to)->count > 6) bsi->api->breakLoop(bsi, "outer");
}
static void branch(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args) {
  int* sum = bsi->api->stateVariable(bsi, NULL, "sum", NULL, NULL);
  (void)to;
  (void)args;
  ++*sum;
}
static void* zero(void* data) {
  (void)data;
  return calloc(1, sizeof(int));
}
static void free_zero(void* data, void* value) {
  (void)data;
  free(value);
}
static void branches(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args) {
  FutoInAsyncSteps* parallel;
  (void)args;
  if (bsi->api->stateVariable(bsi, NULL, "sum", zero, free_zero) == NULL) note(to, -1);
  parallel = bsi->api->parallel(bsi, NULL, NULL);
  parallel->api->add(parallel, to, branch, NULL);
}
static void last(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args) {
  FutoInArgs results = no_results;
  char text[] = "six";
  (void)args;
  note(to, 30 + *(int*)bsi->api->stateVariable(bsi, NULL, "sum", zero, free_zero));
  results.arg0.type = &int32_type;
  results.arg0.i32 = 6;
  results.arg1.type = &text_type;
  results.arg1.cstr = text;
  bsi->api->success(bsi, &results);
  text[0] = 'X';
}

void add_program(FutoInAsyncSteps* bsi, struct journal* to) {
  bsi->api->add(bsi, to, outer, recover);
  bsi->api->repeat(bsi, to, 3, iteration, NULL);
  bsi->api->loop(bsi, to, endless, "outer");
  bsi->api->add(bsi, to, branches, NULL);
  bsi->api->add(bsi, to, last, NULL);
}

/* --- sections ----------------------------------------------------------------------------------------------------- */

static void close_section(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  struct guarded* g = data;
  (void)bsi;
  (void)args;
  note(g->to, -g->open--);
}
static void open_section(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  struct guarded* g = data;
  (void)args;
  note(g->to, ++g->open);
  bsi->api->add(bsi, g, close_section, NULL);
}
static void fail_section(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  close_section(bsi, data, args);
  bsi->api->handle_error(bsi, "Bad", NULL);
}
static void open_bad_section(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  struct guarded* g = data;
  (void)args;
  note(g->to, ++g->open);
  bsi->api->add(bsi, g, fail_section, NULL);
}
static void recover_section(FutoInAsyncSteps* bsi, void* data, const char* code) {
  note(((struct guarded*)data)->to, strcmp(code, "Bad") == 0 ? 100 : -100);
  bsi->api->success(bsi, NULL);
}
static void guarded_branches(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  struct guarded* g = data;
  FutoInAsyncSteps* parallel = bsi->api->parallel(bsi, NULL, NULL);
  int i;
  (void)args;
  for (i = 0; i != 3; ++i) parallel->api->addSync(parallel, g->sync, g, open_section, NULL);
  parallel->api->addSync(parallel, g->sync, g, open_bad_section, recover_section);
}

void add_guarded_branches(FutoInAsyncSteps* bsi, struct guarded* what) {
  bsi->api->add(bsi, what, guarded_branches, NULL);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

void note_results(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args) {
  int i;
  (void)bsi;
  for (i = 0; i != 4 && args->args[i].type != NULL; ++i) note(to, args->args[i].type->flags);
}

void hand_on(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  FutoInArgs results = *args;
  (void)data;
  bsi->api->success(bsi, &results);
}

void pass_all_kinds(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  static const FutoInType types[] = {{FTN_TYPE_BOOL, NULL},   {FTN_TYPE_INT8, NULL},   {FTN_TYPE_INT16, NULL},
                                     {FTN_TYPE_INT64, NULL},  {FTN_TYPE_UINT8, NULL},  {FTN_TYPE_UINT16, NULL},
                                     {FTN_TYPE_UINT32, NULL}, {FTN_TYPE_UINT64, NULL}, {FTN_TYPE_FLOAT, NULL},
                                     {FTN_TYPE_DOUBLE, NULL}};
  FutoInArgs results = no_results;
  const int first = *(const int*)data;
  int i;
  (void)args;
  for (i = 0; i != 4 && first + i != 10; ++i) {
    FutoInBinaryValue* v = &results.args[i];
    v->type = &types[first + i];
    switch (v->type->flags) {
      case FTN_TYPE_BOOL:
        v->b = true;
        break;
      case FTN_TYPE_INT8:
        v->i8 = -8;
        break;
      case FTN_TYPE_INT16:
        v->i16 = -16;
        break;
      case FTN_TYPE_INT64:
        v->i64 = -64;
        break;
      case FTN_TYPE_UINT8:
        v->u8 = 208;
        break;
      case FTN_TYPE_UINT16:
        v->u16 = 50016;
        break;
      case FTN_TYPE_UINT32:
        v->u32 = 4000000032u;
        break;
      case FTN_TYPE_UINT64:
        v->u64 = UINT64_C(18000000000000000064);
        break;
      case FTN_TYPE_FLOAT:
        v->f = 0.5F;
        break;
      default:
        v->d = 0.25;
        break;
    }
  }
  bsi->api->success(bsi, &results);
}

void pass_texts(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  static const FutoInType types[] = {{FTN_TYPE_STRING, NULL}, {FTN_TYPE_STRING16, NULL}, {FTN_TYPE_STRING32, NULL}};
  static const FutoInChar16 wide[] = {'w', 'i', 'd', 'e', 0};
  static const FutoInChar32 wider[] = {'w', 'i', 'd', 'e', 'r', 0x1F600, 0};
  char text[] = {'a', 0, 'b'};
  FutoInArgs results = no_results;
  (void)data;
  (void)args;
  results.arg0.type = &types[0];
  results.arg0.cstr = text;
  results.arg0.length = 3;
  results.arg1.type = &types[1];
  results.arg1.cstr16 = wide;
  results.arg2.type = &types[2];
  results.arg2.cstr32 = wider;
  results.arg3.type = &types[0];
  results.arg3.cstr = "";
  bsi->api->success(bsi, &results);
  memset(text, 'x', sizeof text);
}

void pass_arrays(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  static const FutoInType types[] = {{FTN_TYPE_ARRAY | FTN_TYPE_INT32, NULL}, {FTN_TYPE_ARRAY | FTN_TYPE_DOUBLE, NULL}};
  int32_t numbers[] = {1, 2, 3};
  FutoInArgs results = no_results;
  (void)data;
  (void)args;
  results.arg0.type = &types[0];
  results.arg0.p = numbers;
  results.arg0.length = 3;
  results.arg1.type = &types[1];
  bsi->api->success(bsi, &results);
  numbers[0] = 0;
}

static void count_free(FutoInBinaryValue* v) { ++*(int*)v->custom_data; }

FutoInBinaryValue counted_object(int* freed) {
  static const FutoInType type = {FTN_TYPE_CUSTOM_OBJECT, count_free};
  FutoInBinaryValue v = no_results.arg0;
  v.type = &type;
  v.custom_data = freed;
  v.p = "object";
  return v;
}

void pass_object(FutoInAsyncSteps* bsi, void* freed, const FutoInArgs* args) {
  FutoInArgs results = no_results;
  (void)args;
  results.arg0 = counted_object(freed);
  bsi->api->success(bsi, &results);
}

/* --- another runtime ---------------------------------------------------------------------------------------------- */

struct other {
  FutoInAsyncSteps steps;
  FutoInAsyncSteps* inner;
  FutoInAsyncSteps* home; /* has the memory: of branches, the step around them */
};
struct call {
  FutoInAsyncSteps* root;
  void* data;
  FutoInAsyncSteps_execute_callback f;
  FutoInAsyncSteps_error_callback eh;
  FutoInAsyncSteps_cancel_callback ch;
  void (*body)(FutoInAsyncSteps* bsi, void* data);
  void (*counted)(FutoInAsyncSteps* bsi, void* data, size_t i);
};

static const FutoInAsyncStepsAPI other_api;

static FutoInAsyncSteps* inner_of(FutoInAsyncSteps* bsi) { return ((struct other*)bsi)->inner; }

static struct other* face_in(void* memory, FutoInAsyncSteps* inner, FutoInAsyncSteps* home) {
  const struct other face = {{&other_api}, inner, home};
  memcpy(memory, &face, sizeof face);
  return memory;
}
/* One that lives as long as the step. */
static FutoInAsyncSteps* face_of(FutoInAsyncSteps* inner) {
  void* memory = inner->api->stack(inner, sizeof(struct other), NULL);
  return memory != NULL ? &face_in(memory, inner, inner)->steps : NULL;
}
static struct call* call_of(FutoInAsyncSteps* bsi, void* data) {
  FutoInAsyncSteps* home = ((struct other*)bsi)->home;
  struct call* made = home->api->stack(home, sizeof *made, NULL);
  memset(made, 0, sizeof *made);
  made->data = data;
  return made;
}
static void run(FutoInAsyncSteps* inner, void* data, const FutoInArgs* args) {
  struct call* c = data;
  c->f(face_of(inner), c->data, args);
}
static void handle(FutoInAsyncSteps* inner, void* data, const char* code) {
  struct call* c = data;
  c->eh(face_of(inner), c->data, code);
}
static void cancelled(FutoInAsyncSteps* inner, void* data) {
  struct call* c = data;
  struct other face = {{&other_api}, inner, inner};
  c->ch(&face.steps, c->data);
}
static void iterate(FutoInAsyncSteps* inner, void* data) {
  struct call* c = data;
  c->body(face_of(inner), c->data);
}
static void count(FutoInAsyncSteps* inner, void* data, size_t i) {
  struct call* c = data;
  c->counted(face_of(inner), c->data, i);
}
static void other_add(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_execute_callback f,
                      FutoInAsyncSteps_error_callback eh) {
  FutoInAsyncSteps* inner = inner_of(bsi);
  struct call* c = call_of(bsi, data);
  c->f = f;
  c->eh = eh;
  inner->api->add(inner, c, run, eh != NULL ? handle : NULL);
}
static FutoInAsyncSteps* other_parallel(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_error_callback eh) {
  FutoInAsyncSteps* inner = inner_of(bsi);
  struct call* c = call_of(bsi, data);
  void* memory = inner->api->stack(inner, sizeof(struct other), NULL);
  c->eh = eh;
  return &face_in(memory, inner->api->parallel(inner, c, eh != NULL ? handle : NULL), inner)->steps;
}
static void* other_variable(FutoInAsyncSteps* bsi, void* data, const char* name, void* (*allocate)(void*),
                            void (*cleanup)(void*, void*)) {
  return inner_of(bsi)->api->stateVariable(inner_of(bsi), data, name, allocate, cleanup);
}
static void* other_stack(FutoInAsyncSteps* bsi, size_t size, void (*cleanup)(void*)) {
  return inner_of(bsi)->api->stack(inner_of(bsi), size, cleanup);
}
static void other_success(FutoInAsyncSteps* bsi, FutoInArgs* args) { inner_of(bsi)->api->success(inner_of(bsi), args); }
static void other_error(FutoInAsyncSteps* bsi, const char* code, const char* info) {
  inner_of(bsi)->api->handle_error(inner_of(bsi), code, info);
}
static void other_timeout(FutoInAsyncSteps* bsi, uint32_t ms) { inner_of(bsi)->api->setTimeout(inner_of(bsi), ms); }
static void other_set_cancel(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_cancel_callback ch) {
  FutoInAsyncSteps* inner = inner_of(bsi);
  struct call* c = call_of(bsi, data);
  c->ch = ch;
  inner->api->setCancel(inner, c, cancelled);
}
static void other_wait(FutoInAsyncSteps* bsi) { inner_of(bsi)->api->waitExternal(inner_of(bsi)); }
static void other_loop(FutoInAsyncSteps* bsi, void* data, void (*f)(FutoInAsyncSteps*, void*), const char* label) {
  struct call* c = call_of(bsi, data);
  c->body = f;
  inner_of(bsi)->api->loop(inner_of(bsi), c, iterate, label);
}
static void other_repeat(FutoInAsyncSteps* bsi, void* data, size_t n, void (*f)(FutoInAsyncSteps*, void*, size_t),
                         const char* label) {
  struct call* c = call_of(bsi, data);
  c->counted = f;
  inner_of(bsi)->api->repeat(inner_of(bsi), c, n, count, label);
}
static void other_break(FutoInAsyncSteps* bsi, const char* label) {
  inner_of(bsi)->api->breakLoop(inner_of(bsi), label);
}
static void other_continue(FutoInAsyncSteps* bsi, const char* label) {
  inner_of(bsi)->api->continueLoop(inner_of(bsi), label);
}
static void other_execute(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_error_callback unhandled) {
  inner_of(bsi)->api->execute(inner_of(bsi), data, unhandled);
}
static void other_cancel(FutoInAsyncSteps* bsi) { inner_of(bsi)->api->cancel(inner_of(bsi)); }
static void other_sync(FutoInAsyncSteps* bsi, FutoInSync* sync, void* data, FutoInAsyncSteps_execute_callback f,
                       FutoInAsyncSteps_error_callback eh);
static ptrdiff_t other_root(FutoInAsyncSteps* bsi) { return inner_of(bsi)->api->rootId(inner_of(bsi)); }
static int other_valid(FutoInAsyncSteps* bsi) { return inner_of(bsi)->api->isValid(inner_of(bsi)); }
static FutoInAsyncSteps* other_instance(FutoInAsyncSteps* bsi) {
  return other_runtime(inner_of(bsi)->api->newInstance(inner_of(bsi)));
}
static void other_free(FutoInAsyncSteps* bsi) {
  inner_of(bsi)->api->free(inner_of(bsi));
  free(bsi);
}
static FutoInHandle other_immediate(FutoInAsyncSteps* bsi, void* data, void (*cb)(void*)) {
  return inner_of(bsi)->api->sched_immediate(inner_of(bsi), data, cb);
}
static FutoInHandle other_deferred(FutoInAsyncSteps* bsi, uint32_t ms, void* data, void (*cb)(void*)) {
  return inner_of(bsi)->api->sched_deferred(inner_of(bsi), ms, data, cb);
}
static void other_sched_cancel(FutoInAsyncSteps* bsi, FutoInHandle* h) {
  inner_of(bsi)->api->sched_cancel(inner_of(bsi), h);
}
static int other_sched_valid(FutoInAsyncSteps* bsi, FutoInHandle* h) {
  return inner_of(bsi)->api->sched_is_valid(inner_of(bsi), h);
}
static int other_same_thread(FutoInAsyncSteps* bsi) { return inner_of(bsi)->api->is_same_thread(inner_of(bsi)); }

static const FutoInAsyncStepsAPI other_api = {
    {{other_add,       other_parallel, other_variable,     other_stack,       other_success,
      other_error,     other_timeout,  other_set_cancel,   other_wait,        other_loop,
      other_repeat,    other_break,    other_continue,     other_execute,     other_cancel,
      other_sync,      other_root,     other_valid,        other_instance,    other_free,
      other_immediate, other_deferred, other_sched_cancel, other_sched_valid, other_same_thread}}};

FutoInAsyncSteps* other_runtime(FutoInAsyncSteps* inner) {
  void* memory = malloc(sizeof(struct other));
  return &face_in(memory, inner, inner)->steps;
}

/* Its sync(): a step that locks, and one with the section, whose stack unlocks. */
struct section {
  FutoInSync* sync;
  FutoInAsyncSteps* steps;
  struct call call;
};
static void leave_section(void* value) {
  struct section* s = *(struct section**)value;
  if (s->steps != NULL) s->sync->api->unlock(s->steps, s->sync);
}
static void lock_section(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  struct section* s = data;
  (void)args;
  s->sync->api->lock(bsi, s->sync);
}
static void run_section(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  struct section* s = data;
  struct section** place = bsi->api->stack(bsi, sizeof(void*), leave_section);
  (void)args;
  *place = s;
  s->steps = bsi;
  bsi->api->add(bsi, s->call.data, s->call.f, s->call.eh);
}
static void enter_section(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
  (void)args;
  bsi->api->add(bsi, data, lock_section, NULL);
  bsi->api->add(bsi, data, run_section, NULL);
}
static void other_sync(FutoInAsyncSteps* bsi, FutoInSync* sync, void* data, FutoInAsyncSteps_execute_callback f,
                       FutoInAsyncSteps_error_callback eh) {
  FutoInAsyncSteps* home = ((struct other*)bsi)->home;
  struct section* s = home->api->stack(home, sizeof *s, NULL);
  memset(s, 0, sizeof *s);
  s->sync = sync;
  s->call.data = data;
  s->call.f = f;
  s->call.eh = eh;
  other_add(bsi, s, enter_section, NULL);
}

/* --- a mutex ------------------------------------------------------------------------------------------------------ */

struct c_waiter {
  FutoInAsyncSteps* steps;
  struct c_mutex* of;
  struct c_waiter* next;
};

static void enter(struct c_mutex* m, FutoInAsyncSteps* bsi) {
  m->owner = bsi->api->rootId(bsi);
  if (++m->holders > m->most_holders) m->most_holders = m->holders;
}
static void give_up(FutoInAsyncSteps* bsi, void* data) {
  struct c_waiter* w = data;
  struct c_waiter** at = &w->of->first;
  (void)bsi;
  while (*at != w) at = &(*at)->next;
  *at = w->next;
  free(w);
}
static void lock_mutex(FutoInAsyncSteps* bsi, FutoInSync* sync) {
  struct c_mutex* m = (struct c_mutex*)sync;
  struct c_waiter* w;
  struct c_waiter** at = &m->first;
  if (m->holders == 0) {
    enter(m, bsi);
    return;
  }
  if (m->owner == bsi->api->rootId(bsi)) {
    ++m->nested;
    return;
  }
  w = malloc(sizeof *w);
  w->steps = bsi;
  w->of = m;
  w->next = NULL;
  while (*at != NULL) at = &(*at)->next;
  *at = w;
  bsi->api->waitExternal(bsi);
  bsi->api->setCancel(bsi, w, give_up);
}
static void unlock_mutex(FutoInAsyncSteps* bsi, FutoInSync* sync) {
  struct c_mutex* m = (struct c_mutex*)sync;
  struct c_waiter* w = m->first;
  if (m->owner != bsi->api->rootId(bsi)) abort();
  if (m->nested != 0) {
    --m->nested;
    return;
  }
  --m->holders;
  if (w == NULL) return;
  m->first = w->next;
  enter(m, w->steps);
  w->steps->api->success(w->steps, NULL);
  free(w);
}

struct c_mutex* make_mutex(void) {
  static const FutoInSyncAPI api = {{{lock_mutex, unlock_mutex}}};
  const struct c_mutex made = {{&api}, 0, 0, 0, 0, NULL};
  struct c_mutex* m = malloc(sizeof *m);
  memcpy(m, &made, sizeof made);
  return m;
}
void free_mutex(struct c_mutex* mutex) { free(mutex); }
