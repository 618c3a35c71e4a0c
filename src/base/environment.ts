/** Variables of the environment. */
import { process } from '#platform'

/** Undefined where it is not set, or empty. Not what a program has put on Object.prototype. */
export const variable = (name: string): string | undefined =>
  Object.hasOwn(process.env, name) ? process.env[name] || undefined : undefined
