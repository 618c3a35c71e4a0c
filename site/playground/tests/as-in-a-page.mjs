// `node --import …/as-in-a-page.mjs`: the library runs on what takes the place of Node in a page.
import { register } from 'node:module'

register('./as-in-a-page-hooks.mjs', import.meta.url)
