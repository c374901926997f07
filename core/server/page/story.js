// What a step was, in words.

// The step before it, where that was heard of.
function sequenceBefore(id) {
  const before = history.steps[history.at - 1];
  return before?.sequences.find((sequence) => sequence.id === id);
}

function namesOf(sequences, most = 4) {
  const parts = [];
  for (const sequence of sequences.slice(0, most)) {
    if (parts.length > 0) parts.push(", ");
    parts.push(sequenceTag(sequence));
  }
  if (sequences.length > most) parts.push(` and ${sequences.length - most} more`);
  return parts;
}

function prefillSentence(sequence) {
  const before = sequence.computed_tokens - sequence.prefill;
  const whole = sequence.known_tokens - sequence.tokens;
  const again = sequence.preemptions > 0 && whole > sequence.prompt_tokens;
  const rest = whole - sequence.computed_tokens;
  const parts = [sequenceTag(sequence), " computes "];
  if (again) parts.push(`${count(sequence.prefill, "token")} again that it had to give up`);
  else if (rest <= 0 && before <= 0) parts.push(`its whole prompt, ${count(sequence.prefill, "token")}`);
  else parts.push(`a chunk of ${count(sequence.prefill, "token")} of its prompt`);
  const isFirst = !sequenceBefore(sequence.id) || sequenceBefore(sequence.id).state === "waiting";
  if (isFirst && before > 0) parts.push(`; ${count(before, "token")} more were found in the cache`);
  if (rest > 0) parts.push(`, ${rest.toLocaleString("en")} to go`);
  return [...parts, ". "];
}

function keptWords(kept, drafts) {
  if (kept === drafts) return drafts === 1 ? " it was right. " : " all were right. ";
  if (kept === 0) return " none was right. ";
  return ` ${kept} ${kept === 1 ? "was" : "were"} right. `;
}

function decodeSentences(step) {
  const plain = step.sequences.filter((sequence) => sequence.decode > 0 && sequence.drafts === 0);
  const drafted = step.sequences.filter((sequence) => sequence.drafts > 0);
  const parts = [];
  if (plain.length > 0) {
    parts.push(...namesOf(plain), plain.length === 1 ? " goes on by one token. " : " go on by one token each. ");
  }
  if (drafted.length > 0) {
    const drafts = drafted.reduce((sum, sequence) => sum + sequence.drafts, 0);
    const kept = drafted.reduce((sum, sequence) => sum + sequence.kept, 0);
    parts.push("Of ", count(drafts, "token"), " guessed ahead for ", ...namesOf(drafted),
               keptWords(kept, drafts));
  }
  return parts;
}

function eventSentences(step) {
  const parts = [];
  const preempted = step.sequences.filter((sequence) => {
    const before = sequenceBefore(sequence.id);
    return before && sequence.preemptions > before.preemptions;
  });
  const ended = step.sequences.filter((sequence) => sequence.state === "ended");
  const forked = step.sequences.filter((sequence) => sequence.tokens > 0 && sequence.sample > 0 && sequence.prefill + sequence.decode === 0);
  if (forked.length > 0) parts.push(...namesOf(forked), " begin", forked.length === 1 ? "s" : "", " on the same prompt without computing it. ");
  if (preempted.length > 0) parts.push(...namesOf(preempted), preempted.length === 1 ? " was" : " were", " preempted: memory was short, so it went to others. ");
  if (ended.length > 0) parts.push(...namesOf(ended), ended.length === 1 ? " has ended and gives its memory back. " : " have ended and give their memory back. ");
  return parts;
}

function tellStory(step) {
  const prefills = step.sequences.filter((sequence) => sequence.prefill > 0);
  const parts = [make("b", { textContent: `Step ${step.step}` }), ` took ${duration(step.time_us)}. `];
  for (const sequence of prefills.slice(0, 3)) parts.push(...prefillSentence(sequence));
  if (prefills.length > 3) parts.push(`${prefills.length - 3} more compute prompts. `);
  parts.push(...decodeSentences(step), ...eventSentences(step));
  $("story").replaceChildren(...parts);
}

// The same for those who do not see the picture.
function batchLabel(step) {
  const rows = (name) => step.sequences.reduce((sum, sequence) => sum + sequence[name], 0);
  return `Step ${step.step}: ${count(rows("prefill"), "prompt token")}, ${count(rows("decode"), "answer token")}, ` +
      `${rows("kept")} of ${count(rows("drafts"), "draft")} kept`;
}
