// The levels that codes of formats stand for.
#pragma once

namespace tenon {

// Of iq4_nl and iq4_xs.
inline constexpr float kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
// OCP's FP4 E2M1 – a sign, two bits of exponent, one of mantissa – in halves.
inline constexpr float kE2M1Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Quantiles of the normal distribution (arXiv:2305.14314, appendix E).
inline constexpr float kNf4Levels[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

// bitsandbytes' own floats of 4 bits, in 192ths: a sign and 0, 1, 128, 192, 64, 96, 32, 48.
inline constexpr float kFp4Levels[16] = {
    0.0f, 0.0052083333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    0.0f, -0.0052083333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};

}  // namespace tenon
