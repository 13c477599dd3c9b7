# Builds with BuildKit and with the classic builder: no --mount, no COPY --chmod, no syntax line to fetch.
ARG NODE_IMAGE=default-node

# A stage of its own: Dependabot does not read the default of an ARG.
FROM node:26-bookworm-slim AS default-node

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error
COPY . .
RUN npm run build && chmod +x dist/cli.js

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without --omit=peer npm brings the whole Prisma CLI, an optional peer of its client.
RUN npm ci --omit=dev --omit=peer --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error
# What is installed here, and nothing else. npm's own --omit=peer would also leave out Express, which NestJS has as a peer.
RUN npm pkg delete devDependencies && npm sbom --sbom-format=cyclonedx --sbom-type=application >sbom.cdx.json
# Prisma's runtime carries a query compiler for each of five databases, twice, in two formats: one file of them is loaded.
RUN find node_modules/@prisma/client/runtime -name 'query_compiler_*' ! -name 'query_compiler_fast_bg.postgresql.*mjs' -delete \
 && find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete

FROM ${NODE_IMAGE}
ARG VERSION=1.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="pet-store-inventory" \
      org.opencontainers.image.description="Stock levels of a pet store over HTTP" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/node:26-bookworm-slim"
WORKDIR /app
# Without a HOST, Node.js listens on IPv6 and IPv4, or on IPv4 alone where the kernel has no IPv6. There, `::` would fail.
ENV NODE_ENV=production HOST= PORT=3000
COPY package.json LICENSE ./
COPY --from=dependencies /app/sbom.cdx.json ./
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY prisma/migrations prisma/migrations
COPY prisma/demo-stock.csv prisma/
RUN ln -s /app/dist/cli.js /usr/local/bin/inventory
# The image's user "node", by number: Kubernetes can only tell from a number that it is not root. The files stay root's.
USER 1000:1000
EXPOSE 3000
# Alive, not ready: whoever acts on this replaces the container, and that never mends a database that is away.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["node", "dist/health-check.js", "/health/live"]
# No shell in front: node is process 1 and gets SIGTERM itself.
ENTRYPOINT []
CMD ["node", "--max-semi-space-size=64", "dist/main.js"]
