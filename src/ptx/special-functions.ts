/**
 * The special function unit of a GPU, bit for bit. The upper bits of a number choose a row of a table, c0, c1 and c2; the other 17, x, give
 * c0 + c1 x + c2 s, where s is nearly x² / 2^19, and the sum is cut off to f32. The rows follow from what an H200 gave for all 2^32 numbers. An f64
 * holds every sum exactly.
 */
import { SPECIAL_FUNCTIONS } from './layout.js'

/** Rows of 64 bits as base64, from the lowest bits c0 with 28, c1 with 19 and c2 with 17, the last two with a sign. */
const ROWS = {
  ex2:
    'AAAAkosF9wBHkwUCm4X6ABs2C6KqBf0AougQcrqF/wAPqxZiygUDAYZ9HJLahQQBOWAi4uqFBwFWUyhi+wUKAQlXLgIMhg4Bfms04hwGEQHlkDryLYYTAXLHQCI/hhcBTg9H' +
    'klAGGgGtaE0yYgYcAcDTU/JzhiABtlBa8oWGIwHC32AimIYmAReBZ4KqBioB5jRuIr0GLAFn+3Tiz4YwAcnUe+LihjMBRcGCEvYGNwELwYmCCYc5AVbUkCIdhzwBWvuX8jCH' +
    'QAFONp8CRYdDAWqFpkJZh0cB5+itwm2HSgH7YLVyggdPAeLtvGKXh1IB14/EgqwHVwEQR8zywYdZAcwT1JLXh10BSPbbcu2HYAG+7uOCA4hlAWr96+IZiGgBjiL0cjAIbQFn' +
    'XvxCR4hxATSxBFNeCHYBMxsNs3WIeAGonBVDjYh9AdM1HhOliIIB9+YmM72IhQFUsC+T1YiJATCSODPuCI4Bz4xBEwcJkwF2oEpDIImWAWrNU7M5CZsB9BNdY1OJoAFXdGZj' +
    'bQmlAd7ub7OHiagB04N5Q6IJrQF9M4MTvQmzASf+jEPYibYBHOSWs/OJuwGq5aBzDwrAAR0Dq3MrisYBwTy100eKygHnkr+DZIrOAd0FynOBCtUB9ZXUw54K2QF/Q99TvIrf' +
    'AcwO6kPaiuQBMfj0g/gK6gE=',
  rcp:
    '/v//IwDw+gHgD/hjP/DuAQQ/8DN9cOMBs4zok7nw2AE8+OCj9PDNAfaA2VMuccMBNibSs2bxuQFY58rjnfGvAcLDw9PT8aYB3Lq8kwjynQEPzLUzPPKUAcn2rsNu8osBgzqo' +
    'M6BygwGylqGT0HJ7AdEKm/P/cnMBYJaUUy7zawHjOI7DW/NjAeDxh0OIc1wB4MCB07NzVQFwpXuD3vNOASGfdVMIdEgBh61vUzF0QQE10GlzWfQ7AcgGZNOAdDUB11Bec6f0' +
    'LgEErlhDzXQpAewdU2PydCMBNKBNwxZ1HgGENEhzOvUYAX/aQoNd9RIB05E90391DgEpWjiTofUIATMzM6PC9QMBnxwuE+N1/wAeFinzAvb6AGkfJEMidvUAMTgf80B28QAy' +
    'YBoTX3btACKXFbN89ugAv9wQw5n25ADDMAxTtvbgAO+SB2PS9twAAwMD8+322ADAgP4CCXfVAOgL+qIjd9EAQaT1wj13zgCQSfGCV/fJAJz77MJw98YAL7rokol3wwAPheQC' +
    'ove/AApc4AK697wA7j7cktH3uQCDLdjC6He3AJon1KL/d7MAAi3QEhb4sACMPcwiLHiuAAtZyOJB+KoAUH/EMlf4qAAssMBCbPilAHbrvPKAeKMABTG5UpV4oACugLVSqXie' +
    'AEfasRK9eJsApz2ugtD4mACqqqqS43iXACohp2L2+JQA/qCj8gj5kQACKqAyG/mPABW8nCIt+Y0AEFeZ0j75iwDU+pVCUHmJAD2nkmJh+YcAKVyPUnJ5hQB5GYzygvmDAAzf' +
    'iGKTeYEAxKyFgqN5gACDgoJys/l9AChgfyLDeXwAmEV8otL5eQC0Mnni4Xl4AGInduLw+XYAhiNzsv/5dAADJ3BCDvpzAL8xbbIcenEAn0Nq4ir6bwCLXGfSOHpvAGl8ZKJG' +
    'em0AIKNhQlR6awCY0F6iYXpqALkEXOJuemgAaT9Z8nv6ZgCWgFbCiHpmACXIU4KV+mMAAhZRAqL6YgAXak5SrnpiAE7ES4K6+mAAkiRJksb6XgDPikZy0npdAPH2QyLeelwA' +
    '4WhBsul6WwCQ4D4S9XpaAOddPFIAe1kA1eA5cgv7VwBIaTdiFvtWACz3NDIh+1UAb4oy4iv7VAACIzByNntTANHALdJA+1IAzGMrIkv7UADiCylCVXtQAAK5JkJf+08AHWsk' +
    'Mmn7TQAiIiLycntNAALeH5J8+0wArZ4dIoZ7SwAWZBuCj/tKACouGdKY+0kA3fwWAqL7SAAi0BQSq/tHAOanEgK0+0cAIYQQ4rx7RgDCZA6ixXtFALtJDELO+0QA/zIK0tb7' +
    'QwCCIAhC3/tCADcSBpLne0IADwgE0u/7QQABAgLy93tBAA==',
  rsqrt:
    '/f//UwBweQGtF/iDXvBqAY9d8BO5cF0B48/oUxBxUAEIbeFTZHFEAW0z2lO18TgBmSHTcwPyLQElNszTTnIjAbtvxZOXchkBEs2+493yDwH0TLjDIXMHAT/usXNjc/4A0q+r' +
    '86Jz9gCmkKVj4HPuALOPn+Mb9OYACKyZg1V03wC25JNTjfTYAOM4jmPDdNIAsKeI4/f0ywBVMIPDKvXFAArSfSNc9b8AEYx4E4x1ugC1XXOTunW1AElGbsPndbAAJUVpsxN2' +
    'qwCrWWRjPnamADuDX+Nn9qEARMFaQ5B2nQA2E1aTt/aYAIh4UcPddpUAtPBMAwN3kQBAe0gzJ/eNAK4XRINK94kAh8U/42x3hgBWhDtjjneDALRTNxOv938AMzMz8853fABs' +
    'Ii8D7nd5AP4gK1MMeHYAhS4n4yn4cwCsSiPDRvhwABJ1H/NieG4AZ60bc374awBV8xdTmXhpAItGFJOz+GYAuqYQM834ZACaEw1D5nhiANyMCdP++F8APhIGwxb5XQB3owIz' +
    'LvlbAEdA/yJF+VkAbuj7glt5WACtm/hycXlWAMVZ9fKGeVQAfSLy8pv5UgCa9e6CsHlRAOjS67LEeU8AL7rocth5TQA6q+XC6/lLANWl4rL+eUoA0KnfQhH6SAD4ttxyI/pH' +
    'ACbN2UI1ekYAJezWwkb6RADJE9Tyr/QKAWJ8zoLy9AABpgXJkjL19gBVrsNCcPXtAEp1vqKr9eUAbFm58uR13QCxWbQiHPbVABR1r3JRds4Aqqqq4oR2xwCH+aWitnbAANVg' +
    'oaLm9rkAvd+cEhX3swB9dZjyQXeuAFIhlHJtd6gAh+KPgpd3owB1uIsywHeeAGuih7Lnd5kA0Z+D8g34lAAQsH8CM3iQAJHSewJX+IsAyQZ48nn4hwA3THTSm/iDAFeicLK8' +
    'eIAArwhtstx4fADHfmnC+/h4AC4EZvIZ+XUAeZhiQjf5cgBAO1/SU3lvABfsW5Jv+WwApqpYoop5aQCHdlXypPlmAGdPUpK++WMA5zRPgtf5YQC8JkzS73lfAJMkSYIH+lwA' +
    'Gi5Goh56WgAKQ0MiNXpYABljQCJL+lUAAo49kmD6UwCCwzpydfpRAFQDOOKJ+k8APU010p36TQD9oDJCsXpMAF3+L0LEekoAHmUt0tb6SAAO1Sry6HpHAPdNKLL6ekUAn88l' +
    'Agx7RADbWSPyHPtCAHnsIIIte0EASocewj17PwAdKhySTXs+AMbUGRJdez0AH4cXQmz7OwD2QBUie/s6ACwCE7KJezkAk8oQ8pd7OAAImg7ipXs3AGdwDJKz+zUAiE0K8sD7' +
    'NABKMQgSzvszAIkbBvLa+zIAJwwEkuf7MQAHAwLi8/swAA==',
  sqrt:
    'AAAA8v8PBv4I/ANS4A8S/j/wB2LBDx7+0twLMqMPKP7twQ+ihQ8z/rqfE8JoDzz+YXYXgkwPRf4KRhvSMA9O/toOH7IVD1j+9dAiMvsOX/5/jCYy4Q5o/ppBKrLHDnH+Z/At' +
    'sq4Oef4EmTFClg5//pI7NTJ+Doj+Ldg4smYOjv7zbjySTw6V/gAAQOI4Dpv+botDoiIOof5YEUfCDA6o/teRSkL3Da/+BA1OMuINtP73glFyzQ27/sfzVBK5DcH+i19YEqUN' +
    'xf5ZxltikQ3L/kYoXwJ+DdD+ZoViAmsN1f7P3WVCWA3a/pMxaeJFDd7+xoBswjMN4/57y2/iIQ3o/sIRc2IQDev+sFN2Ev8M8P5TkXkS7gz0/r7KfFLdDPf+AACA0swM+/4q' +
    'MYOCvAwB/0pehoKsDAT/cIeJwpwMB/+srIwijQwM/wvOj9J9DA7/m+uSsm4MEv9qBZbSXwwU/4YbmRJRDBn/+y2cokIMG//XPJ9SNAwe/ydIojImDCL/9U+lUhgMI/9PVKiS' +
    'Cgwn/0BVqwL9Cyr/01Kuou8LLf8VTbFi4gsx/w5EtHLVCzH/zDe3gsgLNv9XKLrSuws4/7oVvVKvCzn/AADA4qILPv8y58Kylgs+/1rLxZKKC0L/gazIon4LRP+wisvicgtF' +
    '//JlzjJnC0j/Tj7RslsLSv/NE9SCoBY2/Vi22cJzFkf91E3fIkgWVP2D2uRiHRZk/aJc6qLzFXH9bNTvwsoVf/0aQvXCohWO/eSl+qJ7FZv9AAAAQ1UVqf2gUAXDLxW0/faX' +
    'CgMLFb/9M9YPA+cUyf2FCxWjwxTW/Rg4GgOhFOD9GFwfA38U7f2wdyTDXRT0/QiLKQM9FAD+RpYuAx0UB/6TmTOD/RMQ/hOVOIPeExz+6og9I8ATJP45dUJjohMq/iZaRwOF' +
    'EzX+zjdMQ2gTO/5TDlHjSxNF/tPdVSMwE0n+baZawxQTUf4+aF/j+RJX/mMjZGPfEl/++NdoQ8USaP4Xhm2jqxJv/tstcoOSEnH+Xc92o3kSef63ansjYRKB/gAAgCNJEoX+' +
    'UY+EYzESjP7AGIkjGhKO/mScjSMDEpT+VBqSY+wRnP6jkpYj1hGf/mgFmyPAEaT+uHKfY6oRq/6k2qMDlRGw/kI9qON/Ebb+pJqsI2sRuf7d8rCjVhG9/v5FtWNCEcP+GpS5' +
    'gy4RxP5C3b3DGhHL/ochwmMHEc7++WDGQ/QQ0f6qm8pD4RDX/qfRzqPOENr+AgPTQ7wQ2/7JL9cDqhDh/gtY2wOYEOb+1nvfY4YQ5v46m+PDdBDt/kO254NjEO/+AM3rY1IQ' +
    '8/5+3++DQRD2/snt8+MwEPj+8Pf3YyAQ+/7+/fsjEBD9/g==',
  lg2:
    'BAAAgIqLlP6X5xYQXYuf/q11LQAxi6n+56xDQAaLs/7ij1nA3Aq9/g8hb3C0isb+yWKEUI0Kz/5QV5lAZwrY/tgArkBCCuD+YmHCQB6K6P71etZA+wnw/nZP6jDZCff+ueD9' +
    'ELgJ/f58MBHBlwkE/3xAJEF4iQr/URI3kVmJEP+Gp0mhOwkX/6gBXHEeiRz/IiJuAQKJIf9ZCoAx5ogn/6y7kSHLiCv/YDejobAIMf++frTBlgg2//uSxYF9CDr/P3XWwWSI' +
    'P/+qJuehTIhD/1eo9wE1CEj/UvsH8h2IS/+fIBhiBwhP/0IZKELxB1P/J+Y3otuHVv87iEdyxoda/2oAV8KxB13/jU9mcp2HYP+CdnWCiYdk/xR2hBJ2h2b/DU+T8mIHav8z' +
    'AqIyUIdt/0qQsOI9h2//APq+4iuHcv8RQM0yGgd2/y5j2+IIh3j//WPp4vcGe/8dQ/dC5wZ9/zoBBePWhn//7p4S08aGgf/GHCATt4aD/117LZOnBob/Qbs6U5gGif8A3Udj' +
    'iQaL/yHhVMN6Boz/I8hhU2yGjv+Tkm4jXoaQ/+RAezNQhpL/mNOHg0IGlP8eS5QDNYaW/+ynoNMnhpf/euqswxoGmv83E7nzDYab/4UixWMBhpz/2hjR8/SFnv+Q9tzD6AWg' +
    '/xK86MPchaH/wWn089AFo/8=',
  sin:
    'AAAAkEgG+f9OIRkgSAbo/8g+MqBGBtr/fFRLQEQGyf+UXmTQQIa7/zRZfYA8hqr/ekCWMDeGm/+cEK/gMIaN/7rFx7ApBn3/EFzggCEGbv/Iz/hgGAZf/yQdEVEOBlD/XkAp' +
    'UQOGQf/KNUFh9wUz/6L5WJHqhSP/TIhw0dwFFf8q3ochzoUH/5b3npG+hfn+/tC1Ia6F6/7oZszRnIXd/tS14qGKBdD+SLr4oXeFwf7scA7CYwW0/mzWIwJPBaj+YOc4gjmF' +
    'mv6ooE0iIwWP/vz+YQIMhYL+RP91IvQEdf5enoly2wRq/lLZnBLChFz+IK2v4qeEUv7kFsICjYRH/soT1HJxBDz+BKHlMlUEMf7ku/ZCOAQn/r5hB7MahBz+CJAXg/wDEv5M' +
    'RCej3QMK/gR8NkO+g//98jRFQ56D9v3AbFOzfYPu/U4hYZNcA+f9ZFBuAzuD3f0S+HrjGIPW/VgWh1P2gs79YKmSQ9MCyP1cr53DrwLC/ZgmqOOLArv9eg2yk2cCtv10Yrvz' +
    'QoKv/RwkxPMdAqr9HlHMk/iBpv0s6NPz0oGh/SLo2gOtAZ792k/h44YBmf14HudzYAGW/fxS7NM5AZP9oOzwAxOBkP2y6vQD7ACP/Y5M+PPEAIv9shH7s50Aiv26Of1TdgCK' +
    '/TzE/vNOgIj9DLH/gyeAh/0=',
  tanh:
    'AAAAAgAE//8A/v/x/wP9/wD2/9H/A/P/gNX/If4H1/+AcP+S+wfJ/4BV/2H4B2H/gMH9gu4HIv+gWf2h4Ifo/mDXeiLPB67+wB/3AroHdf4A+nFToYdC/oCX9UEMD+v3YPJr' +
    'gooOlPYA6t1y8w2C9QDlSjNLDbL0oDTZMZcM7udA6TfiEwtw56BlinKJCWroIM7QMg8IWeqQ8IWhaA2h2XBdnuECC+LeEFOyofEIGORoecLRMwfd6EBwz2HCBRbtiMfZgZQE' +
    'rvBw/OEhoAO48/h46EHcAjP2oMr2oAAJ2+DBzPjgEAdp5wVg+iCJBavszZv7IFUEzPDRkvzgYgMZ9NVT/TClAqz2j+r9kBACtfgtYP5wnAFM+u67/qBBAY37egP/wPoAh/xA' +
    'O/9wwwBL/blm/1CYAOP9mIj/sHYAW/79ov9wXAC5/o23/wBIAAL/ksf/EDgAO/8Y6n9gUgCU/PD3f2AeALz+CP1/IAsAjP/o/n8gBADU/5r/f4ABAPD/2v9/oAAA+P/y/39A' +
    'AAD8//r/fyAAAP7/',
} as const

type Unit = keyof typeof ROWS

/** Rows of a table of which c0, c1 and c2 have these factors, and c0 this addend, before the sum is multiplied by `unit`. */
interface Rows {
  readonly count: number
  readonly factors: readonly [number, number, number]
  readonly addend: number
  readonly unit: number
}

const rows = (count: number, factors: Rows['factors'], addend: number, unit: number): readonly Rows[] => [
  { count, factors, addend, unit },
]

/** The exponent field from which tanh has rows: below, it is the number itself. */
const TANH_FROM = 119
/** For each exponent from there, until tanh is 1: how many bits of the number are left out, and the factor of c1 and c2. */
const TANH: readonly (readonly [left: number, factor: number])[] = [
  [6, 512],
  [6, 512],
  [6, 512],
  [5, 128],
  [5, 128],
  [4, 64],
  [4, 32],
  [4, 32],
  [3, 8],
  [2, 1],
  [3, 1],
]
const TANH_END = TANH_FROM + TANH.length

const SCALES: Readonly<Record<Unit, readonly Rows[]>> = {
  ex2: rows(64, [2 ** 13, 1, 1], 0x77e2, 2 ** -38),
  rcp: rows(128, [2 ** 13, 0.5, 1], 0x47e7, 2 ** -38),
  rsqrt: rows(128, [2 ** 14, 1, 4], 0x7fff, 2 ** -39),
  sqrt: rows(128, [2 ** 15, 1, 1], 0x7fff, 2 ** -40),
  lg2: rows(64, [2 ** 12, 1, 2], 0x3345, 2 ** -2),
  sin: rows(64, [2 ** 11, 1, 1], 0, 2 ** -37),
  tanh: TANH.map(([left, factor], index) => ({
    count: 2 ** (6 - left),
    factors: [2 ** 15, factor, factor],
    addend: 0,
    unit: 2 ** (TANH_FROM + index - 167),
  })),
}

const ROW_BYTES = 24
const UNITS: readonly Unit[] = ['ex2', 'rcp', 'rsqrt', 'sqrt', 'lg2', 'sin', 'tanh']

const rowsOf = (unit: Unit): number => SCALES[unit].reduce((total, { count }) => total + count, 0)
const rowsBefore = (unit: Unit | undefined): number =>
  UNITS.slice(0, unit === undefined ? UNITS.length : UNITS.indexOf(unit)).reduce(
    (total, each) => total + rowsOf(each),
    0,
  )
/** The offset at which the rows of a function begin in the memory of a machine. */
const placeOf = (unit: Unit): number => SPECIAL_FUNCTIONS.begin + rowsBefore(unit) * ROW_BYTES
/** Behind the rows lie, for each exponent of tanh, the number of its first row and how many bits are left out, in 32 bits each. */
const TANH_PLACES = SPECIAL_FUNCTIONS.begin + rowsBefore(undefined) * ROW_BYTES

const valuesOf = (unit: Unit): readonly number[] => {
  const bytes = Uint8Array.from(atob(ROWS[unit]), (letter) => letter.charCodeAt(0))
  const words = new BigInt64Array(bytes.buffer)
  const scales = SCALES[unit].flatMap((scale) => Array.from({ length: scale.count }, () => scale))
  return scales.flatMap(({ factors: [c0, c1, c2], addend, unit: size }, index) => {
    const word = words[index] ?? 0n
    const first = Number(BigInt.asUintN(28, word)) * c0 + addend
    return [first, Number(BigInt.asIntN(19, word >> 28n)) * c1, Number(word >> 47n) * c2].map((value) => value * size)
  })
}

let table: Float64Array | undefined

/** Writes the rows into the memory of a machine, where the formulas below read them. */
export function writeSpecialFunctions(memory: ArrayBufferLike): void {
  table ??= Float64Array.from(UNITS.flatMap(valuesOf))
  new Float64Array(memory, SPECIAL_FUNCTIONS.begin, table.length).set(table)
  let first = 0
  const places = TANH.flatMap(([left]) => {
    const place = first
    first += 2 ** (6 - left)
    return [place, left]
  })
  new Int32Array(memory, TANH_PLACES, places.length).set(places)
}

// Formulas (expression.ts) --------------------------------------------------------------------------------------------

/** The nearly square of x, an integer of 17 bits: products of bits whose places together lie below 18 count for nothing. */
const SQUARE = `(let u (i32.shr_u x 9) (i32.add (i32.shr_u (i32.mul u u) 1) ${[2, 3, 4, 5, 6, 7, 8]
  .map((bit) => `(i32.and (i32.shr_u u ${9 - bit}) (i32.shr_s (i32.shl x ${31 - bit}) 31))`)
  .reduce((sum, part) => `(i32.add ${sum} ${part})`)}))`

/** The sum of the row with a number, for x. */
const sum = (unit: Unit, row: string, x: string): string => `(let x ${x}
  (let r (i32.add (i32.mul ${row} ${ROW_BYTES}) ${placeOf(unit)})
    (f64.add (f64.load r) (f64.add (f64.mul (f64.load (i32.add r 8)) (f64.convert_i32_u x))
      (f64.mul (f64.load (i32.add r 16)) (f64.convert_i32_u ${SQUARE}))))))`

/** An f64 that a normal f32 holds but for its last bits, cut off to it. */
const cutOff = (value: string): string =>
  `(f32.demote_f64 (f64.reinterpret_i64 (i64.and (i64.reinterpret_f64 ${value}) -536870912L)))`

const LOW_17 = '0x1ffff'
const MANTISSA = '0x7fffff'
const NAN = '0x7fffffff'
const INFINITY = '0x7f800000'

/**
 * The bits of a result whose mantissa, from 1 to 2, is t, and its exponent that of t and e more. An exponent that f32 does not have gives zero or
 * infinity.
 */
const withExponent = (t: string, e: string): string => `(let t (i32.reinterpret_f32 ${t}) (let e ${e}
  (let f (i32.add (i32.shr_u t 23) e) (select (select (i32.add t (i32.shl e 23)) 0 (i32.gt_s f 0)) ${INFINITY} (i32.lt_s f 255)))))`

/** 2^a. Behind the point, 23 bits of |a| count; of what is below zero, that is the complement. */
const EX2 = `(let w (i32.trunc_sat_f32_s (f32.mul (f32.abs a) f:8388608))
  (let n (i32.shr_s (i32.reinterpret_f32 a) 31)
    (let v (i32.add (i32.xor w n) (i32.and n (i32.eqz (i32.and w ${MANTISSA}))))
      (let z ${withExponent(cutOff(sum('ex2', '(i32.and (i32.shr_u v 17) 63)', `(i32.and v ${LOW_17})`)), '(i32.shr_s v 23)')}
        (f32.reinterpret_i32 (select z ${NAN} (f32.eq a a)))))))`

/** The exponent field, the mantissa, and the sign of a, whose bits are b. */
const FIELDS = (body: string): string =>
  `(let b (i32.reinterpret_f32 a) (let k (i32.and (i32.shr_u b 23) 255) (let m (i32.and b ${MANTISSA}) ${body})))`
const SIGN = '(i32.and b 0x80000000)'

const RCP = FIELDS(`(let z ${withExponent(
  cutOff(sum('rcp', '(i32.shr_u m 16)', '(i32.shl (i32.and m 0xffff) 1)')),
  '(i32.sub 126 k)',
)}
  (f32.reinterpret_i32 (select (i32.or ${SIGN} (select z ${INFINITY} k)) ${NAN} (f32.eq a a))))`)

/** The exponent and mantissa of a root: y has 24 bits, the lowest of the exponent before those of the mantissa. A negative number has none. */
const rootOf = (unit: 'rsqrt' | 'sqrt', mantissa: (sum: string) => string, exponent: string, rest: string): string =>
  FIELDS(`(let h (i32.shr_s (i32.sub k 127) 1) (let y (i32.or m (i32.shl (i32.and (i32.add k 1) 1) 23))
    (let z ${withExponent(mantissa(cutOff(sum(unit, '(i32.shr_u y 17)', `(i32.and y ${LOW_17})`))), exponent)}
      (let z (select (select z ${rest} (i32.lt_u k 255)) ${unit === 'sqrt' ? SIGN : `(i32.or ${SIGN} ${INFINITY})`} k)
        (f32.reinterpret_i32 (select z ${NAN} (i32.or (f32.ge a f:0) (i32.eqz k))))))))`)

const RSQRT = rootOf('rsqrt', (value) => `(select f:2 ${value} (i32.eqz y))`, '(i32.sub -1 h)', '0')
const SQRT = rootOf('sqrt', (value) => value, 'h', INFINITY)

/** The logarithm has 36 bits behind the point; a negative one is their complement. */
const LAST = `d:${2 ** -36}`
const LG2 =
  FIELDS(`(let y (f64.add (f64.mul (f64.floor ${sum('lg2', '(i32.shr_u m 17)', `(i32.and m ${LOW_17})`)}) ${LAST})
    (f64.convert_i32_s (i32.sub k 127)))
  (let z (i32.reinterpret_f32 ${cutOff(`(select (f64.add y ${LAST}) y (f64.lt y d:0))`)})
    (let z (select z 0 (i32.ne b 0x3f800000))
      (let z (select (select z ${INFINITY} (i32.lt_u k 255)) 0xff800000 k)
        (f32.reinterpret_i32 (select z ${NAN} (i32.or (f32.ge a f:0) (i32.eqz k))))))))`)

/** The f32 next to 1 / 2π. An angle is multiplied by it and cut off, then its quarters of a turn have 23 bits behind the point. */
const TURNS_PER_RADIAN = `d:${Math.fround(1 / (2 * Math.PI))}`
const wave = (isCosine: boolean): string => {
  const turns = `(f64.promote_f32 ${cutOff(`(f64.mul (f64.promote_f32 (f32.abs a)) ${TURNS_PER_RADIAN})`)})`
  const quarters = `(let q ${turns} (i32.trunc_sat_f64_u (f64.mul (f64.sub q (f64.floor q)) d:${2 ** 25})))`
  const sign = isCosine ? '0' : '(i32.reinterpret_f32 a)'
  return `(let w ${isCosine ? `(i32.add ${quarters} 0x800000)` : quarters}
    (let g (i32.and (i32.xor w (i32.shr_s (i32.shl w 8) 31)) ${MANTISSA})
      (let z (i32.reinterpret_f32 ${cutOff(sum('sin', '(i32.shr_u g 17)', `(i32.and g ${LOW_17})`))})
        (let z (i32.or z (i32.and (i32.xor (i32.shl w 7) ${sign}) 0x80000000))
          (f32.reinterpret_i32 (select z ${NAN} (f32.lt (f32.abs a) f:Infinity)))))))`
}

const TANH_FORMULA = FIELDS(`(let c (i32.sub k ${TANH_FROM}) (let c (select c 0 (i32.gt_s c 0))
  (let c (select c ${TANH.length - 1} (i32.lt_s c ${TANH.length})) (let c (i32.add (i32.shl c 3) ${TANH_PLACES})
    (let g (i32.shr_u m (i32.load (i32.add c 4)))
      (let z (i32.reinterpret_f32 ${cutOff(sum('tanh', '(i32.add (i32.load c) (i32.shr_u g 17))', `(i32.and g ${LOW_17})`))})
        (let z (i32.or ${SIGN} (select z 0x3f800000 (i32.lt_u k ${TANH_END})))
          (f32.reinterpret_i32 (select (select z b (i32.ge_u k ${TANH_FROM})) ${NAN} (f32.eq a a))))))))))`)

/** The functions of a, an f32, as the instructions with `.ftz` give them. */
export const SPECIAL_FUNCTION_FORMULAS = {
  ex2: EX2,
  rcp: RCP,
  rsqrt: RSQRT,
  sqrt: SQRT,
  lg2: LG2,
  sin: wave(false),
  cos: wave(true),
  tanh: TANH_FORMULA,
} as const
