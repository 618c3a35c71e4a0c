/** Takes the place of the library's inspect-in-page.ts in the playground: the page prints as Node does. */
export { inspect } from 'node-inspect-extracted'
