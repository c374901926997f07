// Names that contain what was typed, the shortest first.
const field = document.querySelector("#search");
const found = document.querySelector("#found");
function show() {
  const word = field.value.trim().toLowerCase();
  const hits = word ? names.filter((one) => one[0].toLowerCase().includes(word)) : [];
  hits.sort((a, b) => a[0].length - b[0].length || a[0].localeCompare(b[0]));
  found.replaceChildren(
    ...hits.slice(0, 40).map(([name, page, anchor, header]) => {
      const line = document.createElement("li");
      const link = document.createElement("a");
      link.href = `${page}#${anchor}`;
      link.textContent = name;
      line.append(link, ` ${header}`);
      return line;
    }),
  );
}
field.addEventListener("input", show);
show();
