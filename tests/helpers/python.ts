import { Python } from 'cuda-streams/python'

let opened: Python | string | undefined

/** Python in this process, or why there is none. Starting it takes a tenth of a second, and so does looking for it in vain. */
export function openPython(): Python | string {
  opened ??= open()
  return opened
}

function open(): Python | string {
  try {
    return Python.start()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_UNSUPPORTED') return error.message
    throw error
  }
}

/** Why a module cannot be used here; undefined if it can. */
export function lackOf(module: string): string | undefined {
  const python = openPython()
  if (typeof python === 'string') return python
  try {
    python.run(`import ${module}`)
    return undefined
  } catch (error) {
    return `no ${module} here: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** For tests that are skipped where there is none. */
export function pythonHere(): Python {
  const python = openPython()
  if (typeof python === 'string') throw new Error(python)
  return python
}
