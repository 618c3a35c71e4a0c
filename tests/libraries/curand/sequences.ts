/**
 * What NVIDIA's own generator on the host (`curandCreateGeneratorHost`, cuRAND 10.4.5 and 10.3.10) gives for the seed 1234:
 * tests/gpu-facts/curand-sequences.c prints it, of the generator on a GPU too.
 */

/** Calls one after the other: b(its), u(niform), U(niform of f64), each with how many. */
export interface Sequence {
  readonly offset: number
  readonly calls: string
  /** Of all words of 32 bits that they give, one after the other: 31 times the hash before, and the word, modulo 2 ** 32. */
  readonly hash: number
}

export const FIRST_BITS: readonly number[] = [
  ...[0x2090b348, 0xda7cf0ab, 0x4401906f, 0xcbca470e, 0xd115a128, 0x52fc7c75, 0xc7f33f17, 0x0f1539db],
  ...[0x8b438957, 0xec6a41f7, 0x71067dfe, 0x421d9aa5, 0xa8faf0a4, 0xbf4a632d, 0xabd21f9f, 0x677b289a],
]
export const FIRST_UNIFORM: readonly number[] = [
  ...[0.12720795, 0.853468955, 0.265648872, 0.796055257, 0.816736281, 0.324165136, 0.781055391, 0.0589176342],
]
export const FIRST_UNIFORM_F64: readonly number[] = [
  ...[0.85346899543001431, 0.79605514883270523, 0.11227557330034327, 0.080060631323720377],
  ...[0.32416504567394094, 0.058917992888356474, 0.39546932549724184, 0.52732886446170135],
]
export const FIRST_NORMAL: readonly number[] = [
  ...[-1.61649048, 1.22915542, -1.56054044, 0.464621365, 0.568455219, -0.285896361, 0.254342854, 0.655383945],
]
export const FIRST_NORMAL_F64: readonly number[] = [
  ...[-0.53952669590731883, 0.16063334644202293, 1.0081967077372695, 1.8322492478152392],
  ...[0.54305485664662756, 1.3993199805606309, -0.23274465960590007, -1.3420857016510193],
]
export const FIRST_LOG_NORMAL: readonly number[] = [
  ...[0.198594451, 3.41834116, 0.210022539, 1.59141147, 1.76553762, 0.751340508, 1.28961384, 1.92588186],
]

export const SEQUENCES: readonly Sequence[] = [
  { offset: 0, calls: 'b1', hash: 0x2090b348 },
  { offset: 0, calls: 'b7', hash: 0xa0759f08 },
  { offset: 0, calls: 'b1000', hash: 0x8e506ded },
  { offset: 0, calls: 'b65539', hash: 0x2910c195 },
  { offset: 0, calls: 'b300000', hash: 0x92698e1c },
  { offset: 1, calls: 'b7', hash: 0xb62ef01b },
  { offset: 5, calls: 'b1000', hash: 0xd0aa5832 },
  { offset: 262143, calls: 'b9', hash: 0x53ac7960 },
  { offset: 1099511627776, calls: 'b1000', hash: 0xcf0beb5f },
  { offset: 0, calls: 'b1 b7 b3 b5', hash: 0x8d2872de },
  { offset: 0, calls: 'u1000', hash: 0x8c83f723 },
  { offset: 0, calls: 'u65539', hash: 0xb5a807e6 },
  { offset: 3, calls: 'u300000', hash: 0xa175d99f },
  { offset: 0, calls: 'U1', hash: 0xc8110556 },
  { offset: 0, calls: 'U1000', hash: 0xa69a0392 },
  { offset: 0, calls: 'U300000', hash: 0xe3df0dcc },
  { offset: 1, calls: 'U7', hash: 0x45745592 },
  { offset: 262140, calls: 'U12', hash: 0x2cce108f },
  { offset: 0, calls: 'U262144 U8', hash: 0x38ecd1fb },
  { offset: 0, calls: 'b1 U3 b262140 b4', hash: 0x8a2bfc89 },
  { offset: 0, calls: 'U3 b1 b262140 b4', hash: 0x101804af },
  { offset: 0, calls: 'b262145 U3 U4', hash: 0x11437201 },
]
