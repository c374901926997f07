// Drafts of one sequence, held against what would have been drawn.
#pragma once

#include "plugins/sampler/standard/draw.h"

namespace tenon::standard {

// One sequence's drafts. Exact: each row is drawn from as if there were no drafts, and drafts are
// accepted as long as they are equal. Of a tree, the draft that equals the token leads to the next
// row, whose history is what was drawn so far: just as without drafts.
void verify_exactly(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                    VerifyResult& out);
// By rejection (Leviathan et al., ICML 2023; Chen et al., 2023): draft x is accepted with
// probability min(1, p(x)/q(x)); in place of the first that is not, a token is drawn from
// max(p - q, 0). What comes out is distributed as p. Of a tree, siblings are judged one after the
// other, each against what is left of p, with q the distribution that it was drawn from once the
// siblings before it were (Miao et al., SpecInfer, 2024; Yang et al., 2024: without replacement).
void verify_by_rejection(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                         VerifyResult& out);

// By typical acceptance (Medusa: Cai et al., 2024), which changes the distribution: a draft is
// accepted if p(x) > min(0.09, 0.3 · exp(-H(p))), of siblings the likeliest; else a token is drawn.
// Greedy rows keep what they would have drawn.
void verify_typically(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                      VerifyResult& out);

}  // namespace tenon::standard
