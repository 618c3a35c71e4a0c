/** What a call returned or threw, in one short line. */

/** Nothing forces it. */
export const OPEN = '?'
/** The step was left out: it could hang, or it names something that is not there. */
export const SKIPPED = 'skipped'

export function outcome(call: () => unknown): string {
  try {
    const value = call()
    return value === undefined ? '' : String(value)
  } catch (error) {
    return errorText(error)
  }
}

export const isError = (result: string): boolean => result.startsWith('!')

/** An error by its class, code and number: messages are for people. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return `!${String(error)}`
  const code: unknown = Reflect.get(error, 'code')
  const number: unknown = Reflect.get(error, 'number')
  if (code === undefined) return `!${error.name} ${error.message}`
  return `!${error.name} ${String(code)}${number === undefined ? '' : ` ${String(number)}`}`
}
