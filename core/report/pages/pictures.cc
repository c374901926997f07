#include "core/report/pages/pictures.h"

#include <algorithm>

#include "core/report/pages/charts.h"
#include "core/report/pages/machines_chart.h"
#include "core/report/pages/story.h"
#include "core/report/statistics/requests_summary.h"

namespace tenon {
namespace {

Picture named(Picture picture, std::string name, std::string title) {
  picture.name = std::move(name);
  picture.title = std::move(title);
  return picture;
}

Picture with_arms(Picture picture, const MeasuredComparison& measured) {
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    picture.legend.emplace_back(measured.arms[i].name, arm_colour(i));
  }
  return picture;
}

std::vector<Curve> curves_of(const MeasuredComparison& measured, double RequestRow::*member) {
  std::vector<Curve> curves;
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    Curve curve{.name = measured.arms[i].name, .arm = i};
    for (const MeasuredPiece& piece : measured.pieces) {
      if (piece.kind != PieceKind::measured || piece.arm != curve.name) continue;
      const std::vector<double> values = curve_of(piece, member);
      curve.values.insert(curve.values.end(), values.begin(), values.end());
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

const MeasuredPiece* last_piece(const MeasuredComparison& measured, const std::string& arm) {
  const MeasuredPiece* last = nullptr;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind == PieceKind::measured && piece.arm == arm) last = &piece;
  }
  return last;
}

template <typename Value>
Picture timeline(const MeasuredComparison& measured, const Value& value) {
  std::vector<TimeLine> lines;
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    const MeasuredPiece* piece = last_piece(measured, measured.arms[i].name);
    if (piece == nullptr) continue;
    TimeLine added{.arm = i};
    for (const TimelinePoint& point : piece->timeline)
      added.points.emplace_back(point.ms, value(point));
    lines.push_back(std::move(added));
  }
  return with_arms(timeline_chart(lines), measured);
}

}  // namespace

Picture differences_picture(const MeasuredComparison& measured, const ArmResult& arm) {
  return named(forest_chart(arm, measured.plan.margin), "differences-" + file_word(arm.arm->name),
               arm.arm->name + " against " + measured.arms.front().name +
                   ": differences with their intervals");
}

Picture parts_picture(const MeasuredComparison& measured) {
  std::vector<StackedBar> bars;
  for (const MeasuredArm& arm : measured.arms) {
    for (const bool prefill : {true, false}) {
      StackedBar bar{.name = arm.name + (prefill ? " prefill" : " decode")};
      double pieces = 0;
      for (const MeasuredPiece& piece : measured.pieces) {
        if (piece.kind != PieceKind::measured || piece.arm != arm.name) continue;
        ++pieces;
        for (size_t i = 0; i < bar.parts.size(); ++i) {
          bar.parts[i] += (prefill ? piece.prefill : piece.decode)[i];
        }
      }
      for (double& part : bar.parts) part /= std::max(1.0, pieces);
      bars.push_back(std::move(bar));
    }
  }
  Picture picture = named(stacked_chart(bars), "time", "Where the time of a mean piece goes");
  for (size_t i = 0; i < kPartNames.size(); ++i) {
    picture.legend.emplace_back(kPartNames[i], part_colour(i));
  }
  return picture;
}

std::vector<Picture> request_pictures(const MeasuredComparison& measured) {
  const auto drawn = [&](double RequestRow::*member, const char* name, const char* title) {
    return with_arms(named(distribution_chart(curves_of(measured, member), "ms"), name, title),
                     measured);
  };
  return {drawn(&RequestRow::ttft_ms, "first-token", "Time to the first token"),
          drawn(&RequestRow::latency_ms, "whole-answer", "Whole answer")};
}

std::vector<Picture> timeline_pictures(const MeasuredComparison& measured) {
  return {named(timeline(measured, [](const auto& p) { return static_cast<double>(p.running); }),
                "running", "Sequences running"),
          named(timeline(measured, [](const auto& p) { return static_cast<double>(p.waiting); }),
                "waiting", "Requests waiting"),
          named(timeline(measured, [](const auto& p) { return static_cast<double>(p.rows); }),
                "rows", "Rows in a step"),
          named(timeline(measured, [](const auto& p) { return static_cast<double>(p.kv_tokens); }),
                "kv-cache", "Tokens in the K/V cache")};
}

std::vector<Picture> machine_pictures(const MeasuredComparison& measured) {
  std::vector<Picture> out;
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    const std::string& name = measured.arms[i].name;
    const MeasuredPiece* piece = last_piece(measured, name);
    if (piece == nullptr || piece->machines.empty()) continue;
    out.push_back(named(machines_chart(piece->machines, i), "machines-" + file_word(name),
                        "Every machine of " + name));
  }
  return out;
}

std::vector<Picture> pictures_of(const MeasuredComparison& measured, const Analysis& analysis) {
  std::vector<Picture> out;
  bool any = false;
  for (const ArmResult& arm : analysis.arms) {
    if (arm.different_answers || arm.pairs == 0) continue;
    out.push_back(differences_picture(measured, arm));
    any = true;
  }
  if (!any || measured.plan.probes > 0) return out;
  out.push_back(parts_picture(measured));
  for (auto&& more :
       {request_pictures(measured), timeline_pictures(measured), machine_pictures(measured)}) {
    out.insert(out.end(), more.begin(), more.end());
  }
  // Names of arms may be alike once they are words of files.
  for (size_t i = 0; i < out.size(); ++i) {
    const auto same = [&](const Picture& other) { return other.name == out[i].name; };
    const auto before = std::count_if(out.begin(), out.begin() + static_cast<ptrdiff_t>(i), same);
    if (before > 0) out[i].name += "-" + std::to_string(before + 1);
  }
  return out;
}

std::string caption_of(const MeasuredComparison& measured) {
  std::string out = title_of(measured);
  for (const auto& [name, value] : facts_of(measured)) {
    for (const char* wanted : {"model", "work", "machine", "date"}) {
      if (name == wanted) out += " · " + value;
    }
  }
  return out + " · tenon " + measured.plan.version;
}

}  // namespace tenon
