//! Draws a token from softmax(logits / temperature): all of the sampler that is not the boundary.
//!
//! Built as a static library that knows nothing but C: no header of Tenon, no C++.

use std::slice;

const NO_TOKEN: i32 = -1;

/// A row of logits and what may be drawn from it; `Row` in shim.cc is the same, member for member.
#[repr(C)]
pub struct Row {
    logits: *const f32,
    vocabulary: u32,
    allowed: *const u64, // bits, low one first; null = all
    temperature: f32,
    uniform: f64, // in [0, 1), of the row's key
}

/// The logit of a token that may be drawn.
fn logit(row: &Row, logits: &[f32], id: usize) -> Option<f64> {
    // Safety: where there are bits, there is one for each token.
    let allowed = row.allowed.is_null() || unsafe { *row.allowed.add(id / 64) } >> (id % 64) & 1 == 1;
    (allowed && logits[id].is_finite()).then(|| f64::from(logits[id]))
}

/// The token, or -1 where nothing can be drawn.
///
/// # Safety
/// `row` and what it points to are as the boundary's SampleRow says.
#[no_mangle]
pub unsafe extern "C" fn example_rust_draw(row: *const Row) -> i32 {
    let row = &*row;
    let logits = slice::from_raw_parts(row.logits, row.vocabulary as usize);
    let candidates = || (0..logits.len()).filter_map(|id| logit(row, logits, id).map(|value| (id, value)));
    // The lowest id among equals: only what is larger takes its place.
    let best = candidates().reduce(|best, next| if next.1 > best.1 { next } else { best });
    let (best, highest) = match best {
        Some(found) => found,
        None => return NO_TOKEN,
    };
    if row.temperature <= 0.0 {
        return best as i32;
    }
    let weight = |value: f64| ((value - highest) / f64::from(row.temperature)).exp();
    let total: f64 = candidates().map(|(_, value)| weight(value)).sum();
    let mut left = row.uniform * total;
    let mut last = best;
    for (id, value) in candidates() {
        last = id;
        left -= weight(value);
        if left < 0.0 {
            break;
        }
    }
    last as i32
}
