/* Tenon as a library, in C: a stable binary interface. C++ has <tenon/llm.h> over it.
 *
 * A tenon_llm is a pipeline with its engine, which runs on a thread of its own. A tenon_call is one
 * request to it. Both are opaque; they are numbers inside, so that a handle that was closed, or
 * never opened, is refused with an error and never followed.
 *
 * Errors. A function that can fail returns a tenon_llm_error: NULL means success. Whoever gets one
 * frees it with tenon_llm_error_free. On an error nothing was written to the results. NULL is
 * refused, not followed, wherever a parameter must not be NULL.
 *
 * Threads. Every function may be called from any thread, at the same time as any other. Callbacks
 * of requests come on the engine's thread, one at a time: they must return soon, since all requests
 * wait for them, and may call every function but tenon_llm_close and tenon_llm_call_wait, which
 * would wait for themselves and say so.
 *
 * Ownership. What a caller passes is borrowed for the call, callbacks and their `user` until the
 * call is released. What a caller gets belongs to the handle or the error that it came from.
 *
 * Versions. Functions and members keep their meaning as long as TENON_LLM_ABI stays. Structs may
 * grow at their end, which is why each begins with its size: set it to sizeof of the struct and all
 * other members to zero (TENON_LLM_INIT), and a program that was compiled with an older header
 * keeps working. A struct that is larger than the library knows is taken if the rest of it is zero,
 * and refused otherwise.
 */
#ifndef TENON_LLM_C_H
#define TENON_LLM_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_LLM_ABI 1
#define TENON_LLM_API __attribute__((visibility("default")))
/* In C: tenon_llm_options options = TENON_LLM_INIT(tenon_llm_options); */
#define TENON_LLM_INIT(type) \
  { .size = sizeof(type) }

typedef struct tenon_llm tenon_llm;
typedef struct tenon_call tenon_call;
typedef struct tenon_llm_error tenon_llm_error;

/* The TENON_LLM_ABI that the library was built with. */
TENON_LLM_API uint32_t tenon_llm_abi(void);
/* "0.1.0", for people. */
TENON_LLM_API const char* tenon_llm_version(void);

/* What went wrong. Values are never reused. */
enum {
  TENON_LLM_OK = 0,
  TENON_LLM_INVALID_ARGUMENT = 1, /* the input is wrong; the message says which and why */
  TENON_LLM_UNSUPPORTED = 2,      /* valid, but this pipeline cannot do it */
  TENON_LLM_OUT_OF_MEMORY = 4,
  TENON_LLM_NOT_FOUND = 5, /* a file, a name or an id does not exist */
  TENON_LLM_FAILED = 6,    /* it was tried and did not succeed */
  TENON_LLM_INTERNAL = 7,  /* a defect, please report it */
  TENON_LLM_BUSY = 8       /* as many calls as max_calls have not ended: try again later */
};

/* TENON_LLM_OK for NULL. */
TENON_LLM_API int32_t tenon_llm_error_code(const tenon_llm_error* error);
/* UTF-8, one or more lines; "" for NULL. Belongs to the error. */
TENON_LLM_API const char* tenon_llm_error_message(const tenon_llm_error* error);
/* NULL is allowed. */
TENON_LLM_API void tenon_llm_error_free(tenon_llm_error* error);

/* Lines for people (the process has one log). `least`: 0 debug, 1 info, 2 warning, 3 error; the
 * default is 2. Lines go to `on_line` from whichever thread speaks, one at a time, until the next
 * call; NULL: to standard error. It must not call the library. */
TENON_LLM_API void tenon_llm_set_log(int32_t least,
                                     void (*on_line)(void* user, int32_t level,
                                                     const char* component, const char* text),
                                     void* user);

/* NOLINTBEGIN(readability-identifier-naming): structs have the names that C gives them. */

/* Which pipeline, and what of it differs. All texts are UTF-8; NULL and 0 leave it to the pipeline.
 */
typedef struct tenon_llm_options {
  uint32_t size;
  uint32_t threads;               /* workers of the executor */
  uint32_t max_calls;             /* not ended at the same time; 0 = 1024 */
  uint32_t reserved;              /* 0 */
  const char* config;             /* a pipeline's TOML file; NULL = the bundled one */
  const char* config_text;        /* TOML instead of a file */
  const char* model;              /* folder or GGUF file, instead of the pipeline's */
  const char* const* overrides;   /* "scheduler.plugin=static", as --set of `tenon run` */
  size_t override_count;          /* entries of overrides */
  const char* const* plugin_path; /* folders to look for plugins in first */
  size_t plugin_path_count;       /* entries of plugin_path */
  uint32_t digests;               /* 1: answers have a digest; hashing their logits takes time */
  uint32_t reserved_too;          /* 0 */
} tenon_llm_options;

/* Opens a pipeline: reads its files, loads its plugins and the model's weights, and starts its
 * engine. It may be called several times, with several handles at once. `options` may be NULL.
 * Errors: everything that is wrong with files, plugins and model, each fault a line. */
TENON_LLM_API tenon_llm_error* tenon_llm_open(const tenon_llm_options* options, tenon_llm** llm);
/* Cancels the calls that have not ended, waits until their last callbacks have returned, ends the
 * engine's thread and frees the model. Calls keep what they have until they are released. Close
 * before the program ends. Errors: not open; called from a callback (then it stays open). */
TENON_LLM_API tenon_llm_error* tenon_llm_close(tenon_llm* llm);

/* What a pipeline is. Texts belong to the handle. */
typedef struct tenon_llm_facts {
  uint32_t size;
  uint32_t context_tokens;   /* that a prompt and its answer can have together */
  uint32_t vocabulary;       /* ids of tokens are below it */
  uint32_t embedding_values; /* that an embedding has */
  const char* model;         /* its path */
  const char* numerics;      /* the numerics id: equal ids, equal bits */
  const char* pipeline_hash; /* of the configuration with every default spelled out */
} tenon_llm_facts;
TENON_LLM_API tenon_llm_error* tenon_llm_get_facts(tenon_llm* llm, tenon_llm_facts* facts);

/* A parameter by its name in docs/formats/generation.md ("max_tokens", "temperature", "stop", …),
 * and its value as text; of lists a JSON list, or one entry. Also what an answer must look like
 * (docs/structured-output.md): "json_schema", "json_object" (the value "true"), "regex", "grammar".
 * And "priority": a whole number, of which the lowest runs first where the scheduler looks at it.
 */
typedef struct tenon_llm_setting {
  const char* name;
  const char* value;
} tenon_llm_setting;

/* One turn of a conversation. */
typedef struct tenon_llm_message {
  const char* role; /* "system", "user", "assistant" */
  const char* content;
} tenon_llm_message;

/* New output of a call, borrowed for the callback. A text may lag behind its tokens: a character
 * can need several, and what could be the beginning of a stop is held back. */
typedef struct tenon_llm_delta {
  uint32_t size;
  uint32_t sample; /* which of the answers, from 0 */
  const char* text;
  size_t text_bytes; /* the text does not end in 0 */
  const int32_t* tokens;
  size_t token_count;
} tenon_llm_delta;

enum {
  TENON_LLM_ANSWER = 0,    /* text that goes on from the prompt */
  TENON_LLM_EMBEDDING = 1, /* the prompt as a vector */
  TENON_LLM_SCORE = 2      /* the log probability of each token of the prompt after the first */
};

/* How a conversation goes through the chat template, a sum. */
enum {
  TENON_LLM_NO_TURN = 1, /* nothing is added that begins the model's turn */
  TENON_LLM_CONTINUE = 2 /* the last message stays open, and the answer goes on from it */
};

/* What is wanted of one prompt: a text, its tokens, or a conversation, which goes through the
 * model's own chat template. Exactly one of the three is given; a conversation is `messages` or
 * `conversation`. An embedding takes the settings "pooling", "normalise" and "adapter", a score
 * "adapter". */
typedef struct tenon_llm_request {
  uint32_t size;
  int32_t want; /* TENON_LLM_ANSWER … */
  const char* text;
  size_t text_bytes; /* 0: the text ends in 0 */
  const int32_t* tokens;
  size_t token_count;
  const tenon_llm_message* messages;
  size_t message_count;
  const tenon_llm_setting* settings;
  size_t setting_count;
  /* Called on the engine's thread with each piece of an answer; NULL = the caller waits for the
   * end. Not 0: the call is cancelled. */
  int32_t (*on_delta)(void* user, const tenon_llm_delta* delta);
  /* Called on the engine's thread once, when all is there and tenon_llm_call_wait returns at once.
   * May be NULL. */
  void (*on_end)(void* user);
  void* user;
  const char* conversation;  /* JSON: a list of messages as OpenAI has them, with tool calls */
  const char* tools;         /* JSON: a list, likewise; NULL = none */
  const char* template_data; /* JSON: an object with more names for the template; NULL = none */
  uint32_t chat;             /* TENON_LLM_NO_TURN …; 0 = the model's turn begins */
  uint32_t reserved;         /* 0 */
} tenon_llm_request;

/* Hands a request over. The call runs at once, together with all others. Errors: what is wrong with
 * the request; a prompt and answer that are longer than the context; BUSY. */
TENON_LLM_API tenon_llm_error* tenon_llm_submit(tenon_llm* llm, const tenon_llm_request* request,
                                                tenon_call** call);
/* The tokens of a request's prompt, which nothing is asked of: `count` of them, of which the first
 * `room` are written. Settings are not looked at. Errors: what is wrong with the prompt; tokens may
 * be NULL where room is 0. */
TENON_LLM_API tenon_llm_error* tenon_llm_encode(tenon_llm* llm, const tenon_llm_request* request,
                                                int32_t* tokens, size_t room, size_t* count);
/* The text of tokens: `bytes` of it, of which the first `room` are written, without a 0 at the end.
 * It need not be UTF-8, since a character can need several tokens. `special` is 0: special tokens
 * give no text. Errors: no tokenizer; an id that is none. */
TENON_LLM_API tenon_llm_error* tenon_llm_decode(tenon_llm* llm, const int32_t* tokens, size_t count,
                                                int32_t special, char* text, size_t room,
                                                size_t* bytes);
/* Ends a call soon, with what it has by then and TENON_LLM_CANCELLED; one that has ended stays as
 * it is. Error: not a call. */
TENON_LLM_API tenon_llm_error* tenon_llm_call_cancel(tenon_call* call);
/* Waits for the end. Errors: the request failed; not a call; called from a callback. A call that
 * was cancelled is no error. */
TENON_LLM_API tenon_llm_error* tenon_llm_call_wait(tenon_call* call);

/* Why an answer ended. */
enum {
  TENON_LLM_LENGTH = 0, /* max_tokens, or the context is full */
  TENON_LLM_STOP = 1,   /* a stop string or a stop token */
  TENON_LLM_EOS = 2,    /* the model's end of text */
  TENON_LLM_POOLED = 3, /* an embedding was made */
  TENON_LLM_CANCELLED = 4,
  TENON_LLM_ERROR = 5 /* tenon_llm_call_wait says why */
};

/* Everything belongs to the call. */
typedef struct tenon_llm_answer {
  uint32_t size;
  int32_t finish; /* TENON_LLM_LENGTH … */
  const char* text;
  size_t text_bytes; /* a 0 follows them */
  const int32_t* tokens;
  size_t token_count;
  const float* logprobs; /* of the tokens; NULL where the setting "logprobs" did not ask for them */
  const char* stop;      /* the stop string that matched; NULL = none */
  uint32_t prompt_tokens;
  uint32_t reused_tokens; /* of the prompt, whose K and V were there already */
  uint64_t digest; /* of the logits that the tokens were drawn from, as `tenon run --json` has it;
                      0 without the option "digests" */
} tenon_llm_answer;

/* Answers of a call that has ended: `samples` of them, one if nobody asked for more. */
TENON_LLM_API tenon_llm_error* tenon_llm_call_answer_count(tenon_call* call, size_t* count);
/* `answer->size` is set by the caller. Errors: not ended; no such answer. */
TENON_LLM_API tenon_llm_error* tenon_llm_call_answer(tenon_call* call, size_t index,
                                                     tenon_llm_answer* answer);
/* The numbers of an embedding (embedding_values of them) or of a score (one less than the prompt
 * has tokens). Errors: not ended; neither was wanted. */
TENON_LLM_API tenon_llm_error* tenon_llm_call_values(tenon_call* call, const float** values,
                                                     size_t* count);
/* What else could have come at each position. Everything belongs to the call. */
typedef struct tenon_llm_alternatives {
  uint32_t size;
  uint32_t width;          /* entries of a position */
  size_t positions;        /* of an answer its tokens; of a prompt its tokens after the first */
  const float* logprobs;   /* [positions] of the token that is there */
  const uint32_t* ranks;   /* [positions] of it; 1 = none was more likely */
  const int32_t* tokens;   /* [positions, width], most likely first; -1 = there are no more */
  const float* candidates; /* [positions, width] their log probabilities */
} tenon_llm_alternatives;

/* Stands for the prompt where an answer's index is asked for. */
#define TENON_LLM_PROMPT SIZE_MAX
/* Of an answer, where the setting "logprobs" asked for them; or of the prompt, which
 * "prompt_logprobs" asks for. `out->size` is set by the caller. Errors: not ended; no such answer;
 * not asked for. */
TENON_LLM_API tenon_llm_error* tenon_llm_call_alternatives(tenon_call* call, size_t index,
                                                           tenon_llm_alternatives* out);
/* Gives a call back, and cancels it if it has not ended. When this returns, no callback of the call
 * runs any more, or ever will; but for the one that it is called from. NULL is allowed. Error: not
 * a call. */
TENON_LLM_API tenon_llm_error* tenon_llm_call_release(tenon_call* call);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
