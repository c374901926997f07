// The beginning: which models there are, and which part of the page is shown where it is narrow.

let models = new Map();  // by name, as the server lists them

const isLoaded = (name) => (models.get(name)?.status?.value ?? "loaded") === "loaded";

function titleOf(model) {
  const state = model.status?.value ?? "loaded";
  return state === "loaded" ? model.id : model.status.failed ? `${model.id} (failed)` : `${model.id} (${state})`;
}

function offerModels(list) {
  models = new Map(list.map((model) => [model.id, model]));
  const options = () => list.map((model) => make("option", { value: model.id, textContent: titleOf(model), title: model.status?.error ?? "" }));
  const keep = (select, ...first) => {
    const before = select.value;
    select.replaceChildren(...first, ...options());
    if (models.has(before)) select.value = before;
  };
  keep($("model"));
  keep($("second"), make("option", { value: "", textContent: "no other" }));
  $("second-choice").hidden = list.length < 2;
}

const listOfModels = async () => (await (await ask("/v1/models")).json()).data;

async function loadModels() {
  try {
    offerModels(await listOfModels());
    chooseModel();
  } catch (problem) {
    feed.say("off", problem.message);
    if (problem.status === 401) $("key-box").open = true;
    if (problem.status !== 401) log.fault(`The models cannot be asked for: ${problem.message}`);
  }
}

// Models come and go: what is shown of them, and whether there is an engine to watch.
async function refreshModels() {
  try {
    offerModels(await listOfModels());
  } catch {
    return;  // the next request will say what is wrong
  }
  if (isLoaded(feed.model) && !feed.line) feed.watch(feed.model);
}

// Where a model has no chat template, it can go on with texts all the same.
function offerModes() {
  const hasChat = models.get($("model").value)?.has_chat !== false;
  const [chat, completion] = document.querySelectorAll('input[name="mode"]');
  chat.disabled = !hasChat;
  chat.parentElement.title = hasChat ? "" : "This model has no chat template.";
  if (hasChat || completion.checked) return;
  completion.checked = true;
  talk.showMode();
}

function chooseModel() {
  offerModes();
  if (history.engine && history.engine.model !== $("model").value) {
    history.engine = null;
    history.clear();
  }
  feed.watch($("model").value);
}

function showPane(pane) {
  document.body.dataset.pane = pane;
  $("show-play").setAttribute("aria-pressed", String(pane === "play"));
  $("show-live").setAttribute("aria-pressed", String(pane === "live"));
  drawLive();
}

$("model").addEventListener("change", chooseModel);
$("show-play").addEventListener("click", () => showPane("play"));
$("show-live").addEventListener("click", () => showPane("live"));
document.querySelector('a[href="#live"]').addEventListener("click", () => showPane("live"));
document.querySelector('a[href="#prompt"]').addEventListener("click", () => showPane("play"));

$("key").value = sessionStorage.getItem(keyName) ?? "";
$("key-box").addEventListener("toggle", () => $("key-box").open && $("key").focus());
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = $("key").value.trim();
  key ? sessionStorage.setItem(keyName, key) : sessionStorage.removeItem(keyName);
  $("key-box").open = false;
  loadModels();
});

talk.showMode();
talk.showSettings();
showPane("play");
loadModels();
