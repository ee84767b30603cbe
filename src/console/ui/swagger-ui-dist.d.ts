// The few calls of Swagger UI that the page makes; the package ships no types.
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  type Options = {
    spec: Record<string, unknown>;
    dom_id: string;
    deepLinking: boolean;
    docExpansion: "none" | "list" | "full";
    filter: boolean;
    persistAuthorization: boolean;
    tagsSorter: "alpha";
    validatorUrl: null;
    onComplete(): void;
  };
  type Authorized = Record<string, { name: string; schema: unknown; value: string }>;
  type Ui = { authActions: { authorizeWithPersistOption(authorized: Authorized): void } };
  export default function SwaggerUI(options: Options): Ui;
}
