// A plan as a picture and as a page.
#include <algorithm>
#include <cmath>

#include "core/capacity/plan.h"
#include "core/report/pages/charts.h"
#include "core/report/pages/format.h"
#include "core/report/pages/page_parts.h"
#include "core/report/pages/svg_parts.h"

namespace tenon::capacity {
namespace {

constexpr double kWidth = 640, kHeight = 320;
constexpr double kLeft = 62, kRight = 150, kTop = 20, kBottom = 44;

std::string parts_text(const Probe& probe) {
  const double all = std::max(probe.spent.seconds(), 1e-12);
  return format("reading %.0f %%, computing %.0f %%, links %.0f %%, overheads %.0f %%",
                100 * probe.spent.reading / all, 100 * probe.spent.computing / all,
                100 * probe.spent.links / all, 100 * probe.spent.overheads / all);
}

class Plot {
 public:
  explicit Plot(const Plan& plan) : plan_(plan), by_price_(plan.by_price()) {
    for (const FoundFleet& each : plan.findings) {
      if (each.refused.empty()) cost_ = std::max(cost_, 1.1 * cost_of(each));
    }
  }

  double x(double cost) const { return kLeft + (kWidth - kLeft - kRight) * cost / cost_; }
  // 1 is the bound, which nothing that holds the goal goes beyond.
  double y(double use) const {
    return kHeight - kBottom - (kHeight - kBottom - kTop) * std::clamp(use, 0.0, 1.1) / 1.1;
  }
  double cost_of(const FoundFleet& each) const {
    return by_price_ ? each.price() : each.machines();
  }

  std::string grid() const {
    std::string out;
    const double step = svg::step_for(cost_);
    for (double value = 0; value < cost_; value += step) {
      out += svg::line(x(value), kTop, x(value), kHeight - kBottom, "grid");
      out += svg::text(x(value), kHeight - kBottom + 16, svg::tick(value), "tick");
    }
    for (const double use : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      out += svg::line(kLeft, y(use), kWidth - kRight, y(use), use == 1 ? "zero" : "grid");
      out += svg::text(kLeft - 6, y(use) + 4, format("%.0f %%", 100 * use), "side");
    }
    return out + svg::text(kWidth - kRight, kHeight - 8,
                           by_price_ ? currency() + " an hour" : "machines", "unit");
  }

  // Each in the colour of its machine, the best of all joined.
  std::string points(const std::vector<std::string>& machines) const {
    std::string front, dots;
    for (const FoundFleet& each : plan_.findings) {
      if (!each.refused.empty()) continue;
      const double at = x(cost_of(each)), up = y(each.probe.use_of(plan_.goal));
      const size_t colour = index_of(machines, each.candidate.machine.name);
      dots += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" style=\"fill:%s\"><title>", at, up,
                     each.best ? 5 : 3, arm_colour(colour).c_str()) +
              html_text(fleet_of(each) + ", " + each.candidate.strategy() + ": " +
                        cost_text(each, by_price_)) +
              "</title></circle>\n";
      if (!each.best) continue;
      front += format("%s%.1f %.1f", front.empty() ? "M" : "L", at, up);
      dots += svg::text(at + 9, up + 4, fleet_of(each), "mark");
    }
    return (front.empty() ? "" : svg::path(front, "var(--rule)")) + dots;
  }

  static size_t index_of(const std::vector<std::string>& names, const std::string& name) {
    return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  }

 private:
  std::string currency() const { return plan_.findings.front().candidate.machine.price.currency; }

  const Plan& plan_;
  bool by_price_;
  double cost_ = 1;
};

std::string held_table(const Plan& plan) {
  std::string out =
      "<table><tr><th class=\"n\">cost</th><th>fleet</th><th>weights, K/V</th><th>strategy</th>"
      "<th class=\"n\">ttft ms</th><th class=\"n\">gap ms</th><th class=\"n\">busy</th>"
      "<th>binds</th><th>one replica less</th></tr>\n";
  for (const FoundFleet& each : plan.findings) {
    if (!each.refused.empty()) continue;
    const std::string less =
        !each.fewer ? "–"
                    : format("%.0f %% keep them; ttft %.4g, gap %.4g", 100 * each.fewer->kept_share,
                             each.fewer->ttft_ms, each.fewer->gap_ms);
    out += "<tr><td class=\"n" + std::string(each.best ? " better" : "") + "\">" +
           html_text(cost_text(each, plan.by_price())) + "</td><td>" + html_text(fleet_of(each)) +
           "</td><td>" + html_text(each.candidate.weights + ", " + each.candidate.dtype) +
           "</td><td>" + html_text(each.candidate.strategy()) +
           format(
               "</td><td class=\"n\">%.4g</td><td class=\"n\">%.4g</td><td class=\"n\">%.0f "
               "%%</td><td>",
               each.probe.ttft_ms, each.probe.gap_ms, 100 * each.probe.busy) +
           html_text(std::string(bound_name(each.binds)) + " (" + parts_text(each.probe) + ")") +
           "</td><td>" + html_text(less) + "</td></tr>\n";
  }
  return out + "</table>\n";
}

std::string refused_table(const Plan& plan) {
  std::string rows;
  for (const FoundFleet& each : plan.findings) {
    if (each.refused.empty()) continue;
    rows += "<tr><td>" + html_text(each.candidate.name()) + "</td><td>" + html_text(each.refused) +
            "</td></tr>\n";
  }
  if (rows.empty()) return "";
  return page::element("h2", "What does not") + page::card("<table>" + rows + "</table>\n");
}

}  // namespace

Picture plan_picture(const Plan& plan) {
  Picture out{.name = "plan",
              .title = "Cost, and how much of its bounds each uses",
              .width = kWidth,
              .height = kHeight};
  const Plot plot(plan);
  std::vector<std::string> machines;
  for (const FoundFleet& each : plan.findings) {
    const std::string& name = each.candidate.machine.name;
    if (Plot::index_of(machines, name) < machines.size()) continue;
    machines.push_back(name);
    const std::string sheet = each.candidate.machine.calibrated ? "" : " (never calibrated)";
    out.legend.emplace_back(name + sheet, arm_colour(machines.size() - 1));
  }
  out.body = plot.grid() + plot.points(machines);
  return out;
}

std::string plan_page(const Plan& plan) {
  const std::string title = "Plan: " + plan.model;
  std::string out =
      page::begin(title) + page::element("p", "Simulated: " + plan.goal.words() + ".");
  out += "<div class=\"card summary " +
         std::string(plan.cheapest() != nullptr ? "better" : "worse") + "\">" +
         html_text(summary_of(plan)) + "</div>\n";
  out += page::list(warnings_of(plan));
  if (plan.cheapest() != nullptr) {
    const Picture picture = plan_picture(plan);
    out += page::element("h2", picture.title) + page::legend(picture) +
           page::card(embedded_svg(picture)) +
           "<p class=\"soft\">100 % is the bound that is nearer. Large dots: nothing else is "
           "cheaper and further from its bounds.</p>\n";
    out += page::element("h2", "What holds the goal") + page::card(held_table(plan));
  }
  out += refused_table(plan);
  std::string rows;
  const auto row = [&rows](const char* name, const std::string& value) {
    rows += "<tr><td>" + std::string(name) + "</td><td>" + html_text(value) + "</td></tr>\n";
  };
  row("traffic", plan.traffic);
  row("routing", plan.routing);
  row("seed", std::to_string(plan.seed));
  row("command", plan.command);
  row("version", plan.version);
  row("date", plan.date);
  return out + page::element("h2", "How it was found") +
         page::card("<table class=\"facts\">" + rows + "</table>\n") + page::end();
}

}  // namespace tenon::capacity
