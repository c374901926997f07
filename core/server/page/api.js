// Talking to the server. The key lives in this tab's session storage and nowhere else.

const keyName = "tenon-key";

function authorised(headers) {
  const key = sessionStorage.getItem(keyName);
  return key ? { ...headers, Authorization: `Bearer ${key}` } : headers;
}

async function problemOf(response) {
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // It was no JSON: the status must do.
  }
  const problem = new Error(message);
  problem.status = response.status;
  return problem;
}

async function ask(path, { body, signal } = {}) {
  const options = { signal, headers: authorised({}) };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (!response.ok) throw await problemOf(response);
  return response;
}

// The fields of one server-sent event.
function parseEvent(block) {
  const event = { name: "message", data: "" };
  for (const text of block.split("\n")) {
    if (text.startsWith("data: ")) event.data += text.slice(6);
    if (text.startsWith("event: ")) event.name = text.slice(7);
  }
  return event;
}

// Calls `take` with each event of a response; returns when it has ended.
async function readEvents(response, take) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let from = 0;
    for (let end; (end = text.indexOf("\n\n", from)) >= 0; from = end + 2) {
      take(parseEvent(text.slice(from, end)));
    }
    text = text.slice(from);
  }
}
