/**
 * The storage of contexts that the library has too: Node's, or, if the conformance suite is played as in a page, what takes its place
 * (site/playground/tests/as-in-a-page-hooks.mjs).
 */
export { AsyncLocalStorage } from 'node:async_hooks'
