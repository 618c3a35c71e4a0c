import { fileURLToPath } from 'node:url'

/** The root of the repository; compiled, this file lies in dist/tests/helpers. */
export const root = fileURLToPath(new URL('../../../', import.meta.url))
