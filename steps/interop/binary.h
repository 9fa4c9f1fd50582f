/* SPDX-License-Identifier: BSL-1.0 */
#ifndef ASYNCSTEPS_BINARY_H
#define ASYNCSTEPS_BINARY_H

/*
 * Flows for programs in C: the binary interface of FTN12, section 2.7, with its names and layouts. For C99 and later,
 * and C++20. steps/interop/binary.hpp connects it with the flows of namespace steps.
 *
 * A function that adds steps takes a FutoInAsyncSteps*, the `asi` of C. All calls go through its table:
 *
 *   static void step(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args) {
 *     bsi->api->setTimeout(bsi, 1000);
 *     read_later(bsi, data);   // whoever has the text calls bsi->api->success(bsi, &results)
 *   }
 *   bsi->api->add(bsi, data, step, NULL);
 *
 * Use it between languages, or between two runtimes. Do not use it in C++ code of one program: IAsyncSteps is safer,
 * and checks the types of results.
 *
 * What FTN12 leaves open is so for flows of namespace steps:
 * Threads     those of IAsyncSteps: the flow's loop. From other threads success() and handle_error() while the step
 *             waits, and cancel() of a root. They send a request to the loop and never wait for it.
 * Lifetime    `bsi` is valid until its step has ended; that of a root in C++ until the root is moved or its next
 *             execution is built; that of newInstance() until free(); that of parallel() until the function that has
 *             called it returns. Code on another thread shares a lock with the step's cancel callback, which is called
 *             when the step ends by an error, a timeout or cancel().
 * Errors      a call that fails (no memory, misuse) makes the step fail, as with IAsyncSteps. stateVariable(), stack(),
 *             parallel() and newInstance() then return NULL. Arguments must not be NULL unless it is said that they
 *             may be. A root on a pool has a loop from its start on: sched_immediate() and sched_deferred() before
 *             that make its execution fail.
 */

#include <stddef.h> /* for NULL, ptrdiff_t, size_t */
#include <stdint.h> /* for int8_t to uint64_t, uint_least16_t, uint_least32_t */
#ifndef __cplusplus
#include <stdbool.h> /* for bool */
#endif

#ifdef FUTOIN_BINARYSTEPS_H
#error "include steps/interop/binary.h in place of <futoin/binarysteps.h>: it declares the same"
#endif
/* Keep <futoin/binarysteps.h> and <futoin/binaryval.h> from declaring it again. */
#define FUTOIN_BINARYSTEPS_H
#define FUTOIN_BINARYVAL_H

#if defined(__GNUC__)
#define ASYNCSTEPS_EXTENSION_ __extension__ /* members without a name: not in C99, structs not in C++ */
#else
#define ASYNCSTEPS_EXTENSION_
#endif

#ifdef __cplusplus
extern "C" {
typedef char16_t FutoInChar16;
typedef char32_t FutoInChar32;
#else
typedef uint_least16_t FutoInChar16; /* char16_t, without <uchar.h>, which not all systems have */
typedef uint_least32_t FutoInChar32;
#endif

typedef struct FutoInBinaryValue_ FutoInBinaryValue;
typedef struct FutoInType_ FutoInType;
typedef uint8_t FutoInTypeFlags;
typedef struct FutoInAsyncStepsAPI_ FutoInAsyncStepsAPI;
typedef struct FutoInAsyncSteps_ FutoInAsyncSteps;
typedef struct FutoInSyncAPI_ FutoInSyncAPI;
typedef struct FutoInSync_ FutoInSync;
typedef struct FutoInArgs_ FutoInArgs;
typedef struct FutoInHandle_ FutoInHandle;

/* --- results (2.7.1) -------------------------------------------------------------------------------------------- */

/* A base type, with FTN_TYPE_ARRAY for a number of them one behind the other. */
enum {
  FTN_TYPE_CUSTOM_OBJECT = 0x01,
  FTN_TYPE_STRING = 0x02, /* UTF-8 */
  FTN_TYPE_STRING16 = 0x03,
  FTN_TYPE_STRING32 = 0x04,
  FTN_TYPE_BOOL = 0x05,
  FTN_TYPE_INT8 = 0x06,
  FTN_TYPE_INT16 = 0x07,
  FTN_TYPE_INT32 = 0x08,
  FTN_TYPE_INT64 = 0x09,
  FTN_TYPE_UINT8 = 0x0A,
  FTN_TYPE_UINT16 = 0x0B,
  FTN_TYPE_UINT32 = 0x0C,
  FTN_TYPE_UINT64 = 0x0D,
  FTN_TYPE_FLOAT = 0x0E,
  FTN_TYPE_DOUBLE = 0x0F,
  FTN_BASE_TYPE_MASK = 0x0F,
  FTN_TYPE_ARRAY = 0x10,
  FTN_COMPLEX_TYPE_MASK = 0xF0
};

/* The type of a value. An implementation may have more behind these members. */
struct FutoInType_ {
  const FutoInTypeFlags flags;
  void (*const cleanup)(FutoInBinaryValue* v); /* NULL: the value owns nothing */
};

/* A value of any type; with a null type there is none. */
ASYNCSTEPS_EXTENSION_ struct FutoInBinaryValue_ {
  const FutoInType* type;
  union {
    const void* p; /* an array or a custom object */
    const char* cstr;
    const FutoInChar16* cstr16;
    const FutoInChar32* cstr32;
    bool b;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f;
    double d;
  };
  void* custom_data;
  uint32_t length; /* of a string in characters (0: it ends with a zero), of an array in elements */
};

/* Frees what the value owns. Afterwards there is none. */
static inline void futoin_reset_binval(FutoInBinaryValue* v) {
  if (v->type != NULL && v->type->cleanup != NULL) v->type->cleanup(v);
  v->type = NULL;
  v->u64 = 0;
  v->custom_data = NULL;
  v->length = 0;
}

/* Results of a step: up to four, without gaps.
 *
 * Those that a function of a step gets are lent to it until it returns. It may hand them on to success(). Those that it
 * hands to success() belong to the flow: what has a cleanup is taken over, and other strings and arrays are copied, so
 * that buffers of the caller may go. A value with the type and pointers of one that is lent is that one, handed on: do
 * not take another reference for it, which nobody would give back. A custom object without a cleanup has to outlive its
 * use. An object of C++ that C has no type for is lent only: to hand it on is an error. */
ASYNCSTEPS_EXTENSION_ struct FutoInArgs_ {
  union {
    struct {
      FutoInBinaryValue arg0;
      FutoInBinaryValue arg1;
      FutoInBinaryValue arg2;
      FutoInBinaryValue arg3;
    };
    FutoInBinaryValue args[4];
  };
};

/* --- flows (2.7.2) ---------------------------------------------------------------------------------------------- */

/* Refers to a callback of a loop. It needs no release, may outlive the callback and the loop, and may be copied. */
struct FutoInHandle_ {
  void* data1;
  void* data2;
  ptrdiff_t data3;
};

typedef void (*FutoInAsyncSteps_execute_callback)(FutoInAsyncSteps* bsi, void* data, const FutoInArgs* args);
typedef void (*FutoInAsyncSteps_error_callback)(FutoInAsyncSteps* bsi, void* data, const char* code);
typedef void (*FutoInAsyncSteps_cancel_callback)(FutoInAsyncSteps* bsi, void* data);

/* The functions of a flow. Where IAsyncSteps has a function of that name, it says what it does. `data` is handed to the
 * callbacks as it is. */
ASYNCSTEPS_EXTENSION_ struct FutoInAsyncStepsAPI_ {
  union {
    struct {
      /* Adds a step, with an error handler unless `eh` is NULL. */
      void (*add)(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_execute_callback f,
                  FutoInAsyncSteps_error_callback eh);
      /* Adds a step that runs branches; each call on what it returns makes one. */
      FutoInAsyncSteps* (*parallel)(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_error_callback eh);
      /* The value of a key, made by `allocate` when there is none yet; `cleanup` is called when the flow goes.
       * Branches on a pool may call `allocate` at the same time: all get one value, and the others are cleaned up at
       * once. NULL when it returns NULL, or when the value of that key was made in C++. With `allocate` NULL the value
       * is only looked up, and two keys are reserved: "error_info" is the info of the last error (const char*, until
       * the next error), "last_exception" a std::exception_ptr of C++. */
      void* (*stateVariable)(FutoInAsyncSteps* bsi, void* data, const char* name, void* (*allocate)(void* data),
                             void (*cleanup)(void* data, void* value));
      /* Memory that lives as long as the step; `cleanup` may be NULL. */
      void* (*stack)(FutoInAsyncSteps* bsi, size_t data_size, void (*cleanup)(void* value));
      /* Ends the step. `args` may be NULL; they are empty when it returns. */
      void (*success)(FutoInAsyncSteps* bsi, FutoInArgs* args);
      /* Ends the step by an error. Code and info (which may be NULL) are copied. Return from the function after it. */
      void (*handle_error)(FutoInAsyncSteps* bsi, const char* code, const char* info);
      void (*setTimeout)(FutoInAsyncSteps* bsi, uint32_t timeout_ms);
      void (*setCancel)(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_cancel_callback ch);
      void (*waitExternal)(FutoInAsyncSteps* bsi);
      /* Labels may be NULL, and are copied. */
      void (*loop)(FutoInAsyncSteps* bsi, void* data, void (*f)(FutoInAsyncSteps* bsi, void* data), const char* label);
      void (*repeat)(FutoInAsyncSteps* bsi, void* data, size_t count,
                     void (*f)(FutoInAsyncSteps* bsi, void* data, size_t i), const char* label);
      /* Return from the function after these two. */
      void (*breakLoop)(FutoInAsyncSteps* bsi, const char* label);
      void (*continueLoop)(FutoInAsyncSteps* bsi, const char* label);
      /* Starts a root. `unhandled_error` may be NULL; otherwise it gets an error that ends this execution, also before
       * this returns if the flow cannot start. It is not called after free(). */
      void (*execute)(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_error_callback unhandled_error);
      void (*cancel)(FutoInAsyncSteps* bsi);
      /* Adds a step that has a place in `sync` while it runs. */
      void (*addSync)(FutoInAsyncSteps* bsi, FutoInSync* sync, void* data, FutoInAsyncSteps_execute_callback f,
                      FutoInAsyncSteps_error_callback eh);
      /* The same for all steps of a root, another one for other roots that exist. */
      ptrdiff_t (*rootId)(FutoInAsyncSteps* bsi);
      int (*isValid)(FutoInAsyncSteps* bsi);
      /* A root of its own on the same loop or pool, for execute(). The caller calls free(). */
      FutoInAsyncSteps* (*newInstance)(FutoInAsyncSteps* bsi);
      /* Destroys a root of newInstance(); cancels it if it executes. Nothing for any other. */
      void (*free)(FutoInAsyncSteps* bsi);
      /* Callbacks of the flow's loop; none of them runs at the same time as a step. */
      FutoInHandle (*sched_immediate)(FutoInAsyncSteps* bsi, void* data, void (*cb)(void* data));
      FutoInHandle (*sched_deferred)(FutoInAsyncSteps* bsi, uint32_t delay_ms, void* data, void (*cb)(void* data));
      void (*sched_cancel)(FutoInAsyncSteps* bsi, FutoInHandle* handle);
      int (*sched_is_valid)(FutoInAsyncSteps* bsi, FutoInHandle* handle);
      int (*is_same_thread)(FutoInAsyncSteps* bsi);
    };
    void* funcs[25];
  };
};

/* A flow, as one of its steps sees it. An implementation may have more behind this member. */
struct FutoInAsyncSteps_ {
#ifdef __cplusplus
  FutoInAsyncSteps_(const FutoInAsyncStepsAPI* functions) noexcept : api(functions) {} /* NOLINT: as in FTN12 */
#endif
  const FutoInAsyncStepsAPI* const api;
};

/* --- synchronisation (2.7.3) ------------------------------------------------------------------------------------ */

/* The functions of a synchronisation object. */
ASYNCSTEPS_EXTENSION_ struct FutoInSyncAPI_ {
  union {
    struct {
      /* Called by a step, which ends when it has a place: at once, or later if lock() has made it wait. */
      void (*lock)(FutoInAsyncSteps* bsi, FutoInSync* sync);
      /* Gives back the place of the flow that `bsi` belongs to, on its loop. */
      void (*unlock)(FutoInAsyncSteps* bsi, FutoInSync* sync);
    };
    void* funcs[2];
  };
};

/* A synchronisation object. An implementation may have more behind this member. */
struct FutoInSync_ {
#ifdef __cplusplus
  explicit FutoInSync_(const FutoInSyncAPI* functions) noexcept : api(functions) {}
#endif
  const FutoInSyncAPI* const api;
};

#ifdef __cplusplus
}
#endif
#undef ASYNCSTEPS_EXTENSION_
#endif
