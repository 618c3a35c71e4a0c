/** How a sanitizer can tell what it finds. */
import { checkChoice } from '../base/arguments.js'

/** How a sanitizer tells what it finds. */
export type SanitizerMode = 'collect' | 'throw' | 'print'

const MODES: readonly SanitizerMode[] = ['collect', 'throw', 'print']

export const checkMode = (mode: unknown, name: string): SanitizerMode => checkChoice(mode, name, MODES)
