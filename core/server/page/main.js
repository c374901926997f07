// The beginning: which models there are, and which part of the page is shown where it is narrow.

let modelsWithoutChat = new Set();

async function loadModels() {
  try {
    const list = await (await ask("/v1/models")).json();
    const before = $("model").value;
    $("model").replaceChildren(...list.data.map((model) => make("option", { value: model.id, textContent: model.id })));
    modelsWithoutChat = new Set(list.data.filter((model) => model.has_chat === false).map((model) => model.id));
    if (list.data.some((model) => model.id === before)) $("model").value = before;
    chooseModel();
  } catch (problem) {
    feed.say("off", problem.message);
    if (problem.status === 401) $("key-box").open = true;
    if (problem.status !== 401) log.fault(`The models cannot be asked for: ${problem.message}`);
  }
}

// Where a model has no chat template, it can go on with texts all the same.
function offerModes() {
  const hasChat = !modelsWithoutChat.has($("model").value);
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
