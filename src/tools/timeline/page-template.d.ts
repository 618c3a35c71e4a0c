/** The page with its style and script inside: scripts/build-page.mjs writes this module, so that a bundle has it too. */
export const TEMPLATE: string
