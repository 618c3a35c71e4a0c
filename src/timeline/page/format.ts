/** Times and sizes as people read them. */
const UNITS = [
  { name: 's', nanoseconds: 1e9 },
  { name: 'ms', nanoseconds: 1e6 },
  { name: 'µs', nanoseconds: 1e3 },
] as const

/** How long something takes. */
export function formatTime(nanoseconds: number, digits = 3): string {
  if (Number.isNaN(nanoseconds)) return 'not known'
  if (nanoseconds === 0) return '0'
  const unit = UNITS.find((one) => Math.abs(nanoseconds) >= one.nanoseconds)
  if (unit === undefined) return `${Math.round(nanoseconds)} ns`
  const value = nanoseconds / unit.nanoseconds
  return `${trimmed(value, value >= 100 ? Math.min(digits, 1) : value >= 10 ? Math.min(digits, 2) : digits)} ${unit.name}`
}

/** When something is: to the nanosecond, since that is where points of time may differ. */
export const formatPoint = (nanoseconds: number): string => {
  const unit = UNITS.find((one) => Math.abs(nanoseconds) >= one.nanoseconds)
  if (unit === undefined) return formatTime(nanoseconds)
  return `${trimmed(nanoseconds / unit.nanoseconds, Math.log10(unit.nanoseconds))} ${unit.name}`
}

/** With as many digits as tell points apart that are `step` apart, in the unit that suits the `largest` of them. */
export function formatTick(nanoseconds: number, step: number, largest: number): string {
  if (nanoseconds === 0) return '0'
  const unit = UNITS.find((one) => largest >= one.nanoseconds)
  if (unit === undefined) return `${Math.round(nanoseconds)} ns`
  const digits = Math.max(0, Math.ceil(-Math.log10(Math.max(1, step) / unit.nanoseconds) - 1e-9))
  return `${(nanoseconds / unit.nanoseconds).toFixed(digits)} ${unit.name}`
}

export function formatBytes(bytes: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let size = bytes
  let at = 0
  while (size >= 1024 && at < names.length - 1) {
    size /= 1024
    at += 1
  }
  return `${trimmed(size, 2)} ${names[at]}`
}

export function formatCount(count: number): string {
  return count.toLocaleString('en')
}

/** Of a share from 0 to 1. */
export function formatShare(share: number): string {
  const percent = share * 100
  if (percent > 0 && percent < 0.1) return 'under 0.1 %'
  return `${percent < 10 ? trimmed(percent, 1) : Math.round(percent)} %`
}

function trimmed(value: number, digits: number): string {
  const text = value.toFixed(digits)
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}
