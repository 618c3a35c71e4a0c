/** Formats what a kernel prints, as printf does. */

/** Access to the arguments in memory. */
export interface PrintfMemory {
  /** A byte at a generic address. */
  byte(address: number): number
  /** A 32-bit number in the list of arguments, at an offset. */
  int32(offset: number): number
  int64(offset: number): bigint
  double(offset: number): number
}

const LONGEST = 65536
const CONVERSION = /%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])/g

export function readString(address: number, byte: (address: number) => number): string {
  const bytes: number[] = []
  for (let at = address; bytes.length < LONGEST; at++) {
    const value = byte(at)
    if (value === 0) break
    bytes.push(value)
  }
  return decodeUtf8(bytes)
}

function decodeUtf8(bytes: readonly number[]): string {
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at] ?? 0
    const length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1
    let code = length === 1 ? first : first & (0xff >> (length + 1))
    for (let next = 1; next < length; next++) code = (code << 6) | ((bytes[at + next] ?? 0) & 0x3f)
    text += code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd'
    at += length
  }
  return text
}

/** Formats a text; returns it with the number of arguments that it took. */
export function formatPrintf(format: string, memory: PrintfMemory): { readonly text: string; readonly count: number } {
  let [offset, count] = [0, 0]
  const take = (bytes: 4 | 8): number => {
    offset = Math.ceil(offset / bytes) * bytes
    const at = offset
    offset += bytes
    count++
    return at
  }
  const text = format.replace(
    CONVERSION,
    (
      _,
      flags: string,
      widthText: string | undefined,
      precisionText: string | undefined,
      size: string | undefined,
      kind: string,
      at: number,
    ) => {
      if (kind === '%') return '%'
      const star = (given: string | undefined): number | undefined =>
        given === undefined ? undefined : given === '*' ? memory.int32(take(4)) : Number(given)
      let width = star(widthText) ?? 0
      const hasPrecision = format.slice(at).match(/^%[-+ #0]*(?:\*|\d+)?\./) !== null
      const precision = hasPrecision ? (star(precisionText) ?? 0) : undefined
      const left = flags.includes('-') || width < 0
      width = Math.abs(width)
      const [sign, digits] = convert(kind, flags, size, precision, memory, take)
      const zeros =
        flags.includes('0') && !left && !/[cs]/.test(kind) && !(/[diouxX]/.test(kind) && precision !== undefined)
      const body =
        zeros && /[\da-f]/i.test(digits) && !/inf|nan/i.test(digits)
          ? digits.padStart(width - sign.length, '0')
          : digits
      const whole = sign + body
      return left ? whole.padEnd(width) : whole.padStart(width)
    },
  )
  return { text, count }
}

function convert(
  kind: string,
  flags: string,
  size: string | undefined,
  precision: number | undefined,
  memory: PrintfMemory,
  take: (bytes: 4 | 8) => number,
): [sign: string, digits: string] {
  const plus = flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : ''
  if (kind === 'c') return ['', String.fromCharCode(memory.int32(take(4)) & 255)]
  if (kind === 's') {
    const address = Number(memory.int64(take(8)))
    const text = address === 0 ? '(null)' : readString(address, (at) => memory.byte(at))
    return ['', precision === undefined ? text : text.slice(0, precision)]
  }
  if (kind === 'p') {
    const address = BigInt.asUintN(64, memory.int64(take(8)))
    return ['', address === 0n ? '(nil)' : `0x${address.toString(16)}`]
  }
  if (/[fFeEgGaA]/.test(kind)) {
    const value = memory.double(take(8))
    const negative = value < 0 || Object.is(value, -0)
    const digits = floatDigits(Math.abs(value), kind, precision, flags.includes('#'))
    return [negative ? '-' : plus, /[FEGA]/.test(kind) ? digits.toUpperCase() : digits]
  }
  const wide = /^(ll|l|j|z|t)$/.test(size ?? '')
  const raw = wide ? memory.int64(take(8)) : BigInt(memory.int32(take(4)))
  const bits = wide ? 64 : size === 'hh' ? 8 : size === 'h' ? 16 : 32
  if (/[di]/.test(kind)) {
    const value = BigInt.asIntN(bits, raw)
    const digits = (value < 0n ? -value : value).toString().padStart(precision ?? 1, '0')
    return [value < 0n ? '-' : plus, precision === 0 && value === 0n ? '' : digits]
  }
  const value = BigInt.asUintN(bits, raw)
  const radix = kind === 'o' ? 8 : kind === 'u' ? 10 : 16
  const digits = precision === 0 && value === 0n ? '' : value.toString(radix).padStart(precision ?? 1, '0')
  const prefix = flags.includes('#') && value !== 0n ? (radix === 16 ? '0x' : radix === 8 ? '0' : '') : ''
  return kind === 'X' ? [prefix.toUpperCase(), digits.toUpperCase()] : [prefix, digits]
}

function floatDigits(value: number, kind: string, precision: number | undefined, alternate: boolean): string {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return 'inf'
  const lower = kind.toLowerCase()
  if (lower === 'f') return fixed(value, precision ?? 6)
  if (lower === 'e') return exponential(value, precision ?? 6)
  if (lower === 'g') {
    const wanted = precision === 0 ? 1 : (precision ?? 6)
    const exponent = value === 0 ? 0 : Number(exponential(value, wanted - 1).split('e')[1])
    const plain =
      exponent < -4 || exponent >= wanted ? exponential(value, wanted - 1) : fixed(value, wanted - 1 - exponent)
    if (alternate) return plain
    const [mantissa = '', tail] = plain.split('e')
    const short = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa
    return tail === undefined ? short : `${short}e${tail}`
  }
  return hexadecimal(value, precision)
}

/** The decimal digits of a number. toFixed accepts at most 100 digits, and no number above 1e21, which has no digits behind the point. */
function fixed(value: number, digits: number): string {
  if (value < 1e21) return value.toFixed(Math.min(100, digits))
  const whole = BigInt(value).toString()
  return digits === 0 ? whole : `${whole}.${'0'.repeat(digits)}`
}

function exponential(value: number, digits: number): string {
  const [mantissa = '', exponent = '+0'] = value.toExponential(Math.min(100, digits)).split('e')
  return `${mantissa}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`
}

function hexadecimal(value: number, precision: number | undefined): string {
  if (value === 0) return precision === undefined || precision === 0 ? '0x0p+0' : `0x0.${'0'.repeat(precision)}p+0`
  let exponent = Math.max(Math.floor(Math.log2(value)), -1022)
  if (2 ** exponent > value) exponent--
  const scale = value / 2 ** exponent
  let digits = BigInt(Math.round((scale - Math.floor(scale)) * 2 ** 52))
    .toString(16)
    .padStart(13, '0')
  digits = precision === undefined ? digits.replace(/0+$/, '') : digits.slice(0, precision).padEnd(precision, '0')
  return `0x${Math.floor(scale)}${digits === '' ? '' : `.${digits}`}p${exponent < 0 ? '-' : '+'}${Math.abs(exponent)}`
}
