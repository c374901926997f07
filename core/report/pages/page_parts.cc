#include "core/report/pages/page_parts.h"

namespace tenon::page {
namespace {

// Between them stand the colours and how pictures look.
constexpr const char* kHead =
    R"(<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
)";
constexpr const char* kTail =
    R"(* { box-sizing:border-box }
body { margin:0; background:var(--paper); color:var(--ink); font:16px/1.5 system-ui,-apple-system,"Segoe UI",
  Roboto,"DejaVu Sans",sans-serif }
main { max-width:960px; margin:0 auto; padding:32px 20px 64px }
h1 { font-size:1.7rem; line-height:1.2; margin:0 0 .4em } h2 { font-size:1.15rem; margin:2.2em 0 .5em }
h3 { font-size:1rem; margin:1.4em 0 .3em; color:var(--soft); font-weight:600 }
p { margin:.4em 0 } .soft { color:var(--soft); font-size:.9rem }
.card { background:var(--card); border:1px solid var(--rule); border-radius:10px; padding:14px 16px; margin:12px 0;
  overflow-x:auto }
.summary { border-left:5px solid var(--open) } .summary.better { border-color:var(--good) }
.summary.worse,.summary.different { border-color:var(--bad) } .summary.equivalent { border-color:var(--same) }
.word { display:inline-block; font-weight:700; margin-right:.5em } .better .word,td.better { color:var(--good) }
.worse .word,td.worse,.different .word { color:var(--bad) } .equivalent .word,td.equivalent { color:var(--same) }
.inconclusive .word,td.inconclusive { color:var(--open) }
svg { display:block; width:100%; height:auto; font:12px system-ui,"DejaVu Sans",sans-serif }
table { border-collapse:collapse; width:100%; font-size:.9rem; font-variant-numeric:tabular-nums }
th,td { text-align:left; padding:5px 10px 5px 0; border-bottom:1px solid var(--rule); vertical-align:top }
td.n,th.n { text-align:right } td.n { white-space:nowrap } th.n { overflow-wrap:anywhere; min-width:4em }
tr:last-child td { border-bottom:0 }
code { font:.85em ui-monospace,"DejaVu Sans Mono",monospace; overflow-wrap:anywhere }
.legend span { display:inline-block; margin-right:1.2em; overflow-wrap:anywhere }
.legend i { display:inline-block; width:.8em; height:.8em; border-radius:2px; margin-right:.4em }
ul { margin:.3em 0; padding-left:1.2em } summary { cursor:pointer }
.facts td:first-child { color:var(--soft); white-space:nowrap }
@media (max-width:600px) { main { padding:20px 10px 40px } .card { padding:10px 8px }
  table { font-size:.78rem } th,td { padding-right:6px } td.n { white-space:normal } }
</style>
)";

}  // namespace

std::string begin(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
         element("title", title) + kHead + palette_style() + std::string(picture_style()) + kTail +
         "</head>\n<body>\n<main>\n" + element("h1", title);
}

std::string end() {
  return "</main>\n</body>\n</html>\n";
}

std::string element(const char* tag, const std::string& text) {
  return std::string("<") + tag + ">" + html_text(text) + "</" + tag + ">\n";
}

std::string card(const std::string& inside) {
  return "<div class=\"card\">\n" + inside + "</div>\n";
}

std::string list(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string out = "<ul>\n";
  for (const std::string& sentence : sentences) out += element("li", sentence);
  return out + "</ul>\n";
}

std::string legend(const Picture& picture) {
  std::string out = "<p class=\"legend soft\">";
  for (const auto& [words, colour] : picture.legend) {
    out += "<span><i style=\"background:" + colour + "\"></i>" + html_text(words) + "</span>";
  }
  return out + "</p>\n";
}

}  // namespace tenon::page
