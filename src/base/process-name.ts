/** A name for this process that no other process has, and that all its threads find alike. */
import { hostname, process, readText } from '#platform'

let name: string | undefined

export function processName(): string {
  name ??= `${machine()} ${process.pid} ${startTime()}`
  return name
}

/** Numbers of processes are used again: the kernel's time of the start, in ticks, tells them apart. */
function startTime(): string {
  const afterCommand = read('/proc/self/stat').split(') ').at(-1) ?? ''
  return afterCommand.split(' ')[19] ?? ''
}

const machine = (): string => read('/proc/sys/kernel/random/boot_id').trim() || hostname()

/** Of a virtual file that not every platform has. */
function read(path: string): string {
  try {
    return readText(path)
  } catch {
    return ''
  }
}
