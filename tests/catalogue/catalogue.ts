/** All entries. */
import { aboutLibraries } from '../libraries/about-libraries.js'
import type { Call } from './call.js'
import { libraryCalls } from './library-calls.js'
import { otherCalls } from './other-calls.js'
import { streamCalls } from './stream-calls.js'
import { toolCalls } from './tools.js'

export const calls: readonly Call[] = [
  ...streamCalls,
  ...otherCalls,
  ...aboutLibraries.flatMap((library) => library.calls),
  ...libraryCalls,
  ...toolCalls,
]
