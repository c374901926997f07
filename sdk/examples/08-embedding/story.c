/* The same story in C, a piece at a time. */
#include <stdio.h>
#include <tenon/llm_c.h>

static int failed(tenon_llm_error* error) {
  if (error == NULL) return 0;
  fprintf(stderr, "%s\n", tenon_llm_error_message(error));
  tenon_llm_error_free(error);
  return 1;
}

/* On the engine's thread. */
static int32_t print(void* user, const tenon_llm_delta* delta) {
  (void)user;
  fwrite(delta->text, 1, delta->text_bytes, stdout);
  return 0; /* go on */
}

int main(void) {
  const tenon_llm_setting settings[] = {{"max_tokens", "24"}};
  tenon_llm_request request = TENON_LLM_INIT(tenon_llm_request);
  request.text = "Once upon a time";
  request.settings = settings;
  request.setting_count = 1;
  request.on_delta = print;

  tenon_llm* llm = NULL;
  if (failed(tenon_llm_open(NULL, &llm))) return 1;
  tenon_call* call = NULL;
  int status = failed(tenon_llm_submit(llm, &request, &call)) || failed(tenon_llm_call_wait(call));
  printf("\n");
  status |= failed(tenon_llm_call_release(call));
  status |= failed(tenon_llm_close(llm));
  return status;
}
