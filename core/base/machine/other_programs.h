// How much of the processors other programs use, and which ones they are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace tenon {

// Used by one thread at a time. Programs that live and end between two samples are counted, but not
// by name.
class OtherPrograms {
 public:
  // This process and its children are not others.
  OtherPrograms();
  // The same for the process `own`, by a folder like /proc.
  OtherPrograms(pid_t own, std::string proc);

  void sample();
  // "other programs used 1.6 of 2 processors (cc1plus 1.1, python3 0.3), and 0.2 went to other
  // guests of the host", from the first sample to the latest; empty where nobody used a twentieth
  // of a processor, or where nothing is known.
  std::string text() const;

 private:
  struct Sample {
    double seconds = 0;  // of all processors together, idle ones included
    double busy = 0, stolen = 0;
    double own = 0;  // of this process and its children, those that have ended included
    uint32_t processors = 0;
    struct Program {
      std::string name = {};
      double seconds = 0;
      bool own = false;
    };
    std::map<pid_t, Program> programs = {};
  };
  Sample read() const;

  const pid_t own_;
  const std::string proc_;
  Sample first_, last_;
  std::map<std::string, double> by_name_;  // processor time of others since the first sample
};

}  // namespace tenon
